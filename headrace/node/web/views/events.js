// SPDX-License-Identifier: Apache-2.0
// What has happened on the node since this page was opened.
import { part } from "../api.js";
import { h, table } from "../dom.js";
import { clock } from "../format.js";

const KNOWN = new Set(["event", "time", "graph"]);
const BAD = new Set(["graph-failed", "link-down", "switch-restarted", "vnf-restarted"]);

export function eventsView(page) {
  const rows = table(
    [
      { title: "Time", text: (event) => clock(event.time) },
      { title: "Event", className: "main", node: (event) => [h("i", { class: "light" }), event.event], state: (event) => (BAD.has(event.event) ? "error" : "complete") },
      { title: "Graph", node: (event) => (event.graph ? h("a", { href: `#/graphs/${part(event.graph)}` }, event.graph) : "") },
      { title: "", className: "wide", text: (event) => Object.entries(event).filter(([key]) => !KNOWN.has(key)).map(([key, value]) => `${key}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ") },
    ],
    (event) => `${event.time} ${event.event} ${event.graph} ${event.vnf ?? event.port ?? event.rule ?? ""}`,
    "Nothing has happened since this page was opened.",
  );
  rows.update(page.events);
  page.listen(() => rows.update(page.events));
  return { element: h("div", { class: "view" }, h("section", { class: "card" }, h("h1", {}, "Events"), rows.element)) };
}
