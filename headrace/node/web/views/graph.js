// SPDX-License-Identifier: Apache-2.0
// One graph: its drawing with live rates, what its VNFs cost, its rules, its document.
import { part } from "../api.js";
import { confirmed } from "../dialog.js";
import { h, setAttribute, setText, table } from "../dom.js";
import { drawingIn, stateOf } from "../drawing.js";
import { bits, count, cycles, mebibytes, percent, rate } from "../format.js";
import { grown, wiringRates } from "../readings.js";
import { tile, tiles } from "../tiles.js";

const SLOWLY = 3;
const MOST_RULES = 200;

export function graphView(page, id) {
  const path = `/NF-FG/${part(id)}`;
  const state = h("span", { class: "state" });
  const message = h("p", { class: "message", hidden: true });
  const name = h("p", { class: "muted" });
  const frame = h("div", { class: "frame", tabindex: 0, "aria-label": "drawing of the graph" });
  const draw = drawingIn(frame, (vnf) => `#/graphs/${part(id)}/vnfs/${part(vnf)}`);
  const received = tile("In by end-points", { unit: "packets/s", line: true });
  const sent = tile("Out by end-points", { unit: "packets/s", line: true });
  const throughput = tile("Throughput out", { line: true });
  const dropped = tile("Dropped at ports", { unit: "packets/s", line: true, className: "drops" });
  const vnfs = vnfTable(id);
  const rules = ruleTable();
  const ruleNote = h("p", { class: "muted", hidden: true });
  const rulesOpen = h("details", { class: "card" }, h("summary", {}, h("h2", {}, "Flow rules")), ruleNote, rules.element);
  const source = h("pre", { class: "source" });
  const document_ = h("details", { class: "card" }, h("summary", {}, h("h2", {}, "NF-FG")), source);
  let before = null;
  let rates = null;
  let round = 0;
  let counted = null;

  const remove = async () => {
    if (!(await confirmed(`Delete graph ${id}?`, "Its VNFs, ports and rules are removed, and its traffic stops.", "Delete"))) return;
    // A reading beside the deletion would find no graph, and say so as if it were a fault.
    page.stopReading();
    try {
      await page.api.send("DELETE", path);
      page.say(`graph ${id} is deleted`);
      page.go("");
    } catch (error) {
      page.say(error.message, "bad");
      page.resumeReading();
    }
  };

  const readStatus = async (signal) => {
    const status = await page.api.get(`/NF-FG/status/${part(id)}`, signal);
    setText(state, status.status === "in_progress" ? `in progress, ${status.percentage_completed} %` : status.status);
    setAttribute(state, "data-state", status.status);
    const said = [status.message, ...status.warnings.map((warning) => `warning: ${warning}`)].filter(Boolean);
    message.hidden = !said.length;
    setText(message, said.join("\n"));
  };

  const readRules = async (signal) => {
    const [entry, statistics] = await Promise.all([page.api.get(path, signal), page.api.get(`${path}/statistics`, signal)]);
    const listed = entry["forwarding-graph"]["big-switch"]?.["flow-rules"] ?? [];
    const at = performance.now();
    const now = new Map(statistics.rules.map((rule) => [rule.id, rule]));
    const seconds = counted ? (at - counted.at) / 1000 : 0;
    rules.update(
      listed.slice(0, MOST_RULES).map((rule) => {
        const found = now.get(String(rule.id));
        const more = seconds ? grown(counted.now.get(String(rule.id))?.packets, found?.packets) : null;
        return { ...rule, packets: found?.packets, expired: found?.expired, rate: more === null ? null : more / seconds };
      }),
    );
    ruleNote.hidden = listed.length <= MOST_RULES;
    setText(ruleNote, `The first ${MOST_RULES} of ${count(listed.length)} rules.`);
    counted = { at, now };
  };

  const readDocument = async (signal) => setText(source, JSON.stringify(await page.api.get(path, signal), null, 2));
  document_.addEventListener("toggle", () => document_.open && readDocument().catch((error) => page.say(error.message, "bad")));
  const stale = { now: true };
  page.listen((event) => (stale.now = stale.now || event.graph === id));

  const read = async (signal) => {
    if (stale.now || round % SLOWLY === 0) {
      stale.now = false;
      await readStatus(signal);
    }
    round += 1;
    const wiring = await page.api.get(`${path}/wiring`, signal);
    rates = wiringRates(before, wiring) ?? rates;
    before = wiring;
    setText(name, [wiring.name, wiring.message].filter(Boolean).join(" · "));
    draw(wiring, rates);
    vnfs.update(wiring.vnfs.map((vnf) => ({ ...vnf, spent: rates?.vnfs.get(vnf.id) })));
    if (rates) {
      received.set(rate(rates.received), rates.received);
      sent.set(rate(rates.sent), rates.sent);
      throughput.set(bits(rates.sentBytes), rates.sentBytes);
      dropped.set(rate(rates.dropped), rates.dropped);
    }
    if (rulesOpen.open) await readRules(signal);
  };
  // The drawing fits its frame, whose width may change between two readings.
  const watch = new ResizeObserver(() => before && draw(before, rates));
  watch.observe(frame);

  const element = h("div", { class: "view" },
    h("div", { class: "title" },
      h("h1", {}, h("a", { class: "up", href: "#/", "aria-label": "all graphs" }, "Graphs"), " / ", id, " ", state),
      h("span", { class: "actions" },
        h("a", { class: "button", href: `#/graphs/${part(id)}/edit` }, "Edit"),
        h("button", { type: "button", class: "danger", onclick: remove }, "Delete"))),
    name,
    message,
    h("section", { class: "card drawn" }, frame,
      h("p", { class: "legend muted" }, "packets/s by direction · ", h("i", { class: "key moves" }), " traffic · ", h("i", { class: "key past" }), " direct link · ", h("span", { class: "dropped" }, "✕ dropped"))),
    tiles(received, sent, throughput, dropped),
    h("section", { class: "card" }, h("h2", {}, "VNFs"), vnfs.element),
    rulesOpen,
    document_,
  );
  return { element, read, close: () => watch.disconnect() };
}

function vnfTable(id) {
  return table(
    [
      { title: "VNF", className: "main", node: (vnf) => [h("i", { class: "light" }), h("a", { href: `#/graphs/${part(id)}/vnfs/${part(vnf.id)}` }, vnf.id)], state: stateOf },
      { title: "Template", text: (vnf) => vnf.template },
      { title: "Engine", text: (vnf) => vnf.engine },
      { title: "Cores", className: "number", text: (vnf) => vnf.cores.join(", ") || "–" },
      { title: "Memory", className: "number", text: (vnf) => mebibytes(vnf.memory_mb) },
      { title: "Cycles/packet", className: "number", text: (vnf) => cycles(vnf.spent?.perPacket) },
      { title: "Busy", className: "number", text: (vnf) => (vnf.spent?.cores != null ? `${vnf.spent.cores.toFixed(2)} cores` : percent(vnf.spent?.share)) },
      { title: "Ports", text: (vnf) => [...new Set(vnf.ports.map((port) => port.kind))].join(", ") },
      { title: "Restarts", className: "number", text: (vnf) => vnf.restarts },
      { title: "", className: "wide", text: (vnf) => vnf.held || Object.values(vnf.probes).join("; ") || (vnf.running ? "" : "does not run") },
    ],
    (vnf) => vnf.id,
    "This graph has no VNFs: its end-points are joined by the switch alone.",
  );
}

const matchOf = (rule) =>
  Object.entries(rule.match)
    .filter(([key]) => key !== "port_in")
    .map(([key, value]) => `${key}=${value}`)
    .join(" ") || "any";

const actionsOf = (rule) =>
  rule.actions
    .map((action) => Object.entries(action).map(([key, value]) => (key === "output_to_port" ? `→ ${value}` : `${key} ${typeof value === "object" ? JSON.stringify(value) : value}`)).join(" "))
    .join(", ");

function ruleTable() {
  return table(
    [
      { title: "Rule", className: "main", text: (rule) => rule.id },
      { title: "Priority", className: "number", text: (rule) => rule.priority },
      { title: "From", text: (rule) => rule.match.port_in },
      { title: "Match", text: matchOf },
      { title: "Actions", text: actionsOf },
      { title: "Packets/s", className: "number", text: (rule) => (rule.expired ? "expired" : rate(rule.rate)) },
      { title: "Packets", className: "number", text: (rule) => count(rule.packets) },
    ],
    (rule) => String(rule.id),
    "This graph has no rules.",
  );
}

