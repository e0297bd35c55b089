// SPDX-License-Identifier: Apache-2.0
// One VNF: what it costs, its ports, its log and console, and commands in it.
import { part } from "../api.js";
import { h, setAttribute, setText, table } from "../dom.js";
import { stateOf } from "../drawing.js";
import { cycles, percent, rate } from "../format.js";
import { wiringRates } from "../readings.js";
import { tile, tiles } from "../tiles.js";

const MOST_TEXT = 200_000;

export function vnfView(page, graph, id) {
  const base = `/node/vnfs/${part(graph)}/${part(id)}`;
  const state = h("span", { class: "state" });
  const about = h("p", { class: "muted" });
  const message = h("p", { class: "message", hidden: true });
  const packets = tile("Packets", { unit: "packets/s", line: true });
  const perPacket = tile("Cost", { unit: "cycles/packet", line: true });
  const busy = tile("Busy", { line: true });
  const dropped = tile("Dropped", { unit: "packets/s", line: true, className: "drops" });
  const ports = table(
    [
      { title: "Port", className: "main", text: (port) => port.id },
      { title: "Kind", text: (port) => port.kind },
      { title: "Of the switch", text: (port) => port.port },
      { title: "To the VNF", className: "number", text: (port) => rate(port.rates?.tx) },
      { title: "From it", className: "number", text: (port) => rate(port.rates?.rx) },
      { title: "Dropped", className: "number drops", text: (port) => rate(port.rates?.dropped), state: (port) => (port.rates?.dropped > 0 ? "bad" : null) },
      { title: "Direct link", className: "wide", text: (port) => (port.direct ? (port.direct.to ? `${port.direct.state}, to ${port.direct.to}` : port.direct.reason || port.direct.state) : "–") },
    ],
    (port) => port.id,
    "It has no ports.",
  );
  const texts = { log: logOf(page, `${base}/log`), console: logOf(page, `${base}/console`) };
  const isMachine = { now: false };
  const consoleCard = h("details", { class: "card", hidden: true }, h("summary", {}, h("h2", {}, "Console")), texts.console.element);
  let before = null;
  const read = async (signal) => {
    const wiring = await page.api.get(`/NF-FG/${part(graph)}/wiring`, signal);
    const vnf = wiring.vnfs.find((each) => each.id === id);
    if (!vnf) throw new Error(`graph ${graph} has no VNF ${id}`);
    const rates = wiringRates(before, wiring);
    before = wiring;
    setText(state, { up: "runs", waiting: "runs, not ready", held: "stays ended", down: "does not run" }[stateOf(vnf)]);
    setAttribute(state, "data-state", { up: "complete", waiting: "in_progress" }[stateOf(vnf)] ?? "error");
    const cores = vnf.cores.length ? `core ${vnf.cores.join(", ")}` : "no core of its own";
    setText(about, `${vnf.template} · function ${vnf.function} · engine ${vnf.engine} · ${cores} · ${vnf.memory_mb} MiB · ${vnf.restarts} restarts`);
    const said = [vnf.held, ...Object.values(vnf.probes), vnf.cycles.reason].filter(Boolean).join("\n");
    message.hidden = !said;
    setText(message, said);
    const spent = rates?.vnfs.get(id);
    ports.update(vnf.ports.map((port) => ({ ...port, rates: rates?.ports.get(port.reference) })));
    if (rates) {
      const found = vnf.ports.map((port) => rates.ports.get(port.reference));
      const total = found.reduce((sum, port) => sum + (port?.tx ?? 0), 0);
      const lost = found.reduce((sum, port) => sum + (port?.dropped ?? 0), 0);
      packets.set(rate(total), total);
      perPacket.set(cycles(spent.perPacket), spent.perPacket);
      if (spent.cores !== null) busy.set(spent.cores.toFixed(2), spent.cores, "cores of CPU time");
      else busy.set(percent(spent.share), spent.share);
      dropped.set(rate(lost), lost);
    }
    isMachine.now = vnf.engine === "vm";
    consoleCard.hidden = !isMachine.now;
    if (vnf.processes) await texts.log.read(signal);
    if (consoleCard.open) await texts.console.read(signal);
  };
  const element = h("div", { class: "view" },
    h("h1", {}, h("a", { class: "up", href: "#/" }, "Graphs"), " / ", h("a", { class: "up", href: `#/graphs/${part(graph)}` }, graph), " / ", id, " ", state),
    about,
    message,
    tiles(packets, perPacket, busy, dropped),
    h("section", { class: "card" }, h("h2", {}, "Ports ", h("small", {}, "packets/s")), ports.element),
    h("section", { class: "card" }, h("h2", {}, "Log"), texts.log.element),
    consoleCard,
    commandsIn(page, base),
  );
  return { element, read };
}

/** The end of a log, which goes on as it is written, and stays where it was scrolled to. */
function logOf(page, path) {
  const text = h("pre", { class: "log", tabindex: 0 });
  let offset = null;
  const read = async (signal) => {
    const more = await page.api.text(path, offset, signal);
    offset = more.end;
    if (!more.text && text.textContent) return;
    const atEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 8;
    setText(text, (text.textContent + more.text).slice(-MOST_TEXT));
    if (atEnd) text.scrollTop = text.scrollHeight;
  };
  return { element: text, read };
}

/** The words of a command line: blanks part them, quotes hold them together. */
export function wordsOf(line) {
  const found = line.match(/"([^"]*)"|'([^']*)'|[^\s"']+/g) ?? [];
  return found.map((word) => (/^(".*"|'.*')$/s.test(word) ? word.slice(1, -1) : word));
}

function commandsIn(page, base) {
  const line = h("input", { name: "command", placeholder: "ip addr", "aria-label": "command", autocomplete: "off", spellcheck: "false" });
  const output = h("pre", { class: "log", hidden: true });
  const run = async (event) => {
    event.preventDefault();
    const command = wordsOf(line.value);
    if (!command.length) return;
    output.hidden = false;
    setText(output, "…");
    try {
      const done = await page.api.send("POST", `${base}/exec`, { command });
      const end = done.exit_code === null ? "killed: its time was over" : `exit code ${done.exit_code}`;
      setText(output, `${done.stdout}${done.stderr}${done.truncated ? "\n(the rest is dropped)" : ""}\n${end}`);
    } catch (error) {
      setText(output, error.message);
    }
  };
  return h("details", { class: "card" }, h("summary", {}, h("h2", {}, "Run a command")),
    h("form", { class: "line", onsubmit: run }, line, h("button", { type: "submit" }, "Run")), output);
}
