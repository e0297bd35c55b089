// SPDX-License-Identifier: Apache-2.0
// The node at a glance: what the switch forwards and costs, the graphs, the physical ports.
import { h, setAttribute, setText, table } from "../dom.js";
import { bits, count, cycles, mebibytes, percent, rate } from "../format.js";
import { part } from "../api.js";
import { cost, portRates } from "../readings.js";
import { tile, tiles } from "../tiles.js";

const SLOWLY = 3;

export function overview(page) {
  const forwarded = tile("Switch", { unit: "packets/s", line: true });
  const busy = tile("Workers busy", { line: true });
  const perPacket = tile("Switch cost", { unit: "cycles/packet", line: true });
  const dropped = tile("Dropped at ports", { unit: "packets/s", line: true, className: "drops" });
  const memory = tile("Memory given");
  const cores = tile("Cores with pollers");
  const graphs = table(
    [
      { title: "Graph", className: "main", node: (graph) => [h("i", { class: "light" }), h("a", { href: `#/graphs/${part(graph.id)}` }, graph.id)], state: (graph) => graph.status },
      { title: "Name", className: "wide", text: (graph) => graph.name },
      { title: "State", text: (graph) => (graph.status === "in_progress" ? `${graph.percentage_completed} %` : graph.status) },
      { title: "VNFs run", className: "number", text: (graph) => `${graph.running} of ${graph.vnfs}` },
      { title: "Ends", className: "number", text: (graph) => graph.end_points },
      { title: "Rules", className: "number", text: (graph) => count(graph.rules) },
      { title: "", className: "wide", text: (graph) => graph.message },
    ],
    (graph) => graph.id,
    "No graph is deployed.",
  );
  const ports = table(
    [
      { title: "Port", className: "main", text: (port) => port.name },
      { title: "Kind", text: (port) => port.kind },
      { title: "In", className: "number", text: (port) => rate(port.rates.rx) },
      { title: "Out", className: "number", text: (port) => rate(port.rates.tx) },
      { title: "In bit/s", className: "number", text: (port) => bits(port.rates.rxBytes) },
      { title: "Out bit/s", className: "number", text: (port) => bits(port.rates.txBytes) },
      { title: "Dropped", className: "number drops", text: (port) => rate(port.rates.dropped), state: (port) => (port.rates.dropped > 0 ? "bad" : null) },
      { title: "Graphs", text: (port) => port.users.join(", ") || "–" },
    ],
    (port) => port.name,
    "The node has no physical ports.",
  );
  let before = null;
  let round = 0;
  const stale = { now: true };
  page.listen(() => (stale.now = true));
  const read = async (signal) => {
    const [spent, all, switchPorts] = await Promise.all([
      page.api.get("/node/switch/cycles", signal),
      page.api.get("/node/ports", signal),
      page.api.get("/node/switch/ports", signal),
    ]);
    if (stale.now || round % SLOWLY === 0) {
      stale.now = false;
      graphs.update(await page.api.get("/node/graphs", signal));
      const resources = await page.api.get("/node/resources", signal);
      const { used, total } = resources.memory_mb;
      memory.set(mebibytes(used), 0, `of ${mebibytes(total)}`);
      const polled = resources.cores.filter((core) => core.polling).length;
      cores.set(polled, 0, `of ${resources.cores.length}${resources.oversubscribed ? ", oversubscribed" : ""}`);
    }
    round += 1;
    const lost = switchPorts.reduce((sum, port) => sum + port.rx_dropped + port.tx_dropped, 0);
    const seconds = before ? (spent.at_ns - before.spent.at_ns) / 1e9 : 0;
    const old = new Map((before?.all ?? []).map((port) => [port.name, port.statistics]));
    ports.update(all.map((port) => ({ ...port, rates: portRates(seconds ? old.get(port.name) : null, port.statistics, seconds) })));
    if (seconds > 0) {
      const total = cost(summed(before.spent.workers), summed(spent.workers), seconds);
      forwarded.set(rate(total.packets), total.packets);
      busy.set(percent(total.share), total.share);
      perPacket.set(cycles(total.perPacket), total.perPacket, `${spent.approximate ? "about, " : ""}cycles/packet`);
      const drops = Math.max(0, lost - before.lost) / seconds;
      dropped.set(rate(drops), drops);
    }
    before = { spent, all, lost };
  };
  const element = h("div", { class: "view" },
    tiles(forwarded, busy, perPacket, dropped, memory, cores),
    h("section", { class: "card" },
      h("div", { class: "title" }, h("h2", {}, "Graphs"), h("a", { class: "button primary", href: "#/deploy" }, "Deploy a graph")),
      graphs.element),
    h("section", { class: "card" }, h("h2", {}, "Physical ports ", h("small", {}, "packets/s")), ports.element),
  );
  return { element, read };
}

const summed = (workers) =>
  workers.reduce(
    (sum, worker) => ({
      busy_cycles: sum.busy_cycles + worker.busy_cycles,
      idle_cycles: sum.idle_cycles + worker.idle_cycles,
      packets: sum.packets + worker.packets,
    }),
    { busy_cycles: 0, idle_cycles: 0, packets: 0 },
  );
