// SPDX-License-Identifier: Apache-2.0
// A graph as a drawing: made once for its shape, then given new rates at each reading.
import { s, setAttribute, setText } from "./dom.js";
import { cycles, percent, rate, short } from "./format.js";
import { layout, shapeOf } from "./layout.js";

const LANE = 3.5;
const ARROWS = { row: { into: "↑", out: "↓", forward: "→", backward: "←" }, column: { into: "←", out: "→", forward: "↓", backward: "↑" } };

/** The thickness of a lane, by the order of its rate. */
const thickness = (value) => (value ? 1.5 + 0.55 * Math.log10(1 + value) : 1.2);

/** One direction of a link: a line, and dots that move on it while packets do. */
function lane(path, className) {
  const line = s("path", { class: "lane", d: path });
  const dots = s("path", { class: "dots", d: path });
  const element = s("g", { class: className ?? "" }, line, dots);
  const update = (value) => {
    const moves = value > 0;
    setAttribute(element, "data-moves", moves ? "yes" : null);
    setAttribute(line, "stroke-width", thickness(value).toFixed(2));
    // From 1.6 s a step at a packet per second down to a quarter of that.
    dots.style.animationDuration = moves ? `${Math.max(0.4, 1.6 - 0.18 * Math.log10(value + 1)).toFixed(2)}s` : "0s";
  };
  return { element, update };
}

class Drawing {
  constructor(wiring, width, hrefOf) {
    this.plan = layout(wiring, width);
    this.arrows = this.plan.inRow ? ARROWS.row : ARROWS.column;
    this.hrefOf = hrefOf;
    this.updates = [];
    this.labels = s("g", { class: "labels" }); // above all lines
    const parts = [
      this.#switch(wiring),
      this.plan.arcs.map((arc) => this.#arc(arc)),
      [...this.plan.ports.values()].map((port) => this.#link(port)),
      this.plan.direct.map((link) => this.#direct(link)),
      this.plan.boxes.map((box) => this.#box(box)),
      this.labels,
    ];
    this.element = s(
      "svg",
      {
        class: `drawing ${this.plan.inRow ? "row" : "column"}`,
        viewBox: `0 0 ${this.plan.width} ${this.plan.height}`,
        width: this.plan.width,
        height: this.plan.height,
        role: "group",
        "aria-label": `graph ${wiring.graph} as it is wired`,
      },
      parts,
    );
  }

  update(wiring, rates) {
    for (const update of this.updates) update(wiring, rates);
  }

  /** A point by its place along the row or column and across it. */
  #at(main, cross) {
    return this.plan.inRow ? [main, cross] : [cross, main];
  }

  #line(main, from, to) {
    return `M${this.#at(main, from)}L${this.#at(main, to)}`;
  }

  #curve(from, to, base, depth) {
    const bulge = base + (depth * 4) / 3;
    return `M${this.#at(from, base)}C${this.#at(from, bulge)} ${this.#at(to, bulge)} ${this.#at(to, base)}`;
  }

  #switch(wiring) {
    const { plan } = this;
    const [x, y] = this.#at(1, plan.top);
    const [width, height] = this.#at(plan.length - 2, plan.depth);
    const title = s("text", { class: "caption", x: x + 8, y: y + height - 8 });
    setText(title, plan.inRow ? `${wiring.switch} · ${wiring.lsi}` : wiring.lsi);
    return s("g", { class: "switch" }, s("rect", { x, y, width, height, rx: 8 }), title);
  }

  /** The two lanes between a box's port and the switch, with what each carries and what is lost. */
  #link(port) {
    const { plan, arrows } = this;
    const from = port.box.depth;
    const into = lane(this.#line(port.main - LANE, plan.top, from));
    const out = lane(this.#line(port.main + LANE, from, plan.top));
    const direct = plan.direct.some((link) => link.from === port || link.to === port);
    const place = (line) =>
      plan.inRow
        ? { x: port.main + 9, y: from + 24 + 14 * line }
        : { x: from + 6, y: [port.main - 7, port.main + 16, port.main + 29][line] };
    const texts = [0, 1, 2].map((line) => s("text", { class: line === 2 ? "dropped" : "rate", ...place(line) }));
    const dot = this.#at(port.main, from);
    const socket = this.#at(port.main, plan.top);
    const name = port.item.port && port.label ? `${port.label}, ${port.item.kind}, ${port.item.port}` : port.item.where;
    this.updates.push((_, rates) => {
      const found = rates?.ports.get(port.reference);
      const bypassed = direct && rates?.direct.get(port.reference) > 0;
      into.update(bypassed ? 0 : found?.tx);
      out.update(bypassed ? 0 : found?.rx);
      setText(texts[0], direct ? "" : `${arrows.into} ${rate(found?.tx)}`);
      setText(texts[1], direct ? "" : `${arrows.out} ${rate(found?.rx)}`);
      setText(texts[2], found?.dropped > 0 ? `✕ ${rate(found.dropped)}` : "");
    });
    return s(
      "g",
      { class: direct ? "link bypassed" : "link", "data-port": port.reference },
      s("title", {}, name ?? ""),
      into.element,
      out.element,
      s("circle", { class: "socket", cx: socket[0], cy: socket[1], r: 6 }),
      s("circle", { class: "socket", cx: dot[0], cy: dot[1], r: 6 }),
      texts,
    );
  }

  /** The paths of both directions between two ports of the switch. */
  #arc(arc) {
    const { plan, arrows } = this;
    const lanes = [];
    if (arc.forward) {
      const path = this.#curve(arc.first.main + LANE, arc.second.main - LANE, plan.top, arc.depth - LANE);
      lanes.push([lane(path), arc.forward, arrows.forward]);
    }
    if (arc.backward) {
      const path = this.#curve(arc.second.main + LANE, arc.first.main - LANE, plan.top, arc.depth + LANE);
      lanes.push([lane(path), arc.backward, arrows.backward]);
    }
    const middle = (arc.first.main + arc.second.main) / 2;
    const texts = lanes.map((_, line) => {
      const place = plan.inRow
        ? { x: middle, y: plan.top + arc.depth + 18 + 13 * line, "text-anchor": "middle" }
        : { x: plan.top + arc.depth + 9, y: middle - 3 + 14 * line };
      return s("text", { class: "rate", ...place });
    });
    this.updates.push((_, rates) => {
      lanes.forEach(([drawn, path, arrow], index) => {
        const value = rates?.paths.get(`${path.from} ${path.to}`);
        drawn.update(value);
        setText(texts[index], `${arrow} ${rate(value)}`);
      });
    });
    const said = lanes.map(([, path]) => `${path.from} to ${path.to}: ${path.rules} rule${path.rules === 1 ? "" : "s"}`);
    this.labels.append(...texts);
    return s("g", { class: "arc", "data-path": arc.key }, s("title", {}, said.join("\n")), lanes.map(([drawn]) => drawn.element));
  }

  /** What leaves a port for another VNF's without passing the switch. */
  #direct(link) {
    const { plan } = this;
    const base = link.from.box.depth;
    const isForward = link.from.main < link.to.main;
    const [from, to] = isForward ? [link.from.main + LANE, link.to.main - LANE] : [link.from.main + LANE, link.to.main - LANE];
    const depth = (plan.top - base) * (plan.inRow ? 0.46 : 0.5) + (isForward ? -LANE : LANE);
    const drawn = lane(this.#curve(from, to, base, depth));
    const middle = (from + to) / 2;
    const place = plan.inRow
      ? { x: middle, y: base + depth + (isForward ? -10 : 16), "text-anchor": "middle" }
      : { x: base + (plan.top - base) * 0.5 + 10, y: middle + (isForward ? -4 : 10) };
    const text = s("text", { class: "rate past", ...place });
    this.labels.append(text);
    const arrow = isForward ? this.arrows.forward : this.arrows.backward;
    this.updates.push((_, rates) => {
      const value = rates?.direct.get(link.reference);
      drawn.update(value);
      setText(text, `${arrow} ${rate(value)}`);
    });
    return s("g", { class: "direct", "data-port": link.reference }, s("title", {}, "direct link, past the switch"), drawn.element);
  }

  #box(box) {
    const [x, y] = this.#at(box.main, 1);
    const [width, height] = this.#at(box.length, box.depth - 1);
    const letters = Math.floor((width - 34) / 7.6);
    const text = (className, line, content, limit = Math.floor((width - 20) / 6.4)) =>
      s("text", { class: className, x: x + 10, y: y + 20 + 17 * line }, short(content, limit));
    const shape = s("rect", { x, y, width, height, rx: 8 });
    const light = s("circle", { class: "light", cx: x + width - 13, cy: y + 15, r: 5 });
    if (box.kind === "point") {
      return s(
        "g",
        { class: "box point", "data-box": box.key },
        s("title", {}, `end-point ${box.id}: ${box.item.type} ${box.item.where}`),
        shape,
        text("name", 0, box.id, Math.floor((width - 20) / 7.6)),
        text("detail", 1, box.item.type),
        text("detail", 2, box.item.where),
      );
    }
    const vnf = box.item;
    const told = [text("detail", 2, ""), text("detail", 3, "")];
    const full = width - 20;
    const bar = s("rect", { class: "bar", x: x + 10, y: y + height - 16, width: 0, height: 5, rx: 2.5 });
    const track = s("rect", { class: "track", x: x + 10, y: y + height - 16, width: full, height: 5, rx: 2.5 });
    const group = s(
      "a",
      { class: "box vnf", href: this.hrefOf(vnf.id), "data-box": box.key, "aria-label": `VNF ${vnf.id}` },
      s("title", {}, `VNF ${vnf.id}: ${vnf.template}, engine ${vnf.engine}`),
      shape,
      light,
      text("name", 0, box.id, letters),
      text("detail", 1, `${vnf.template} · ${vnf.engine}`),
      told,
      track,
      bar,
    );
    this.updates.push((wiring, rates) => {
      const now = wiring.vnfs.find((each) => each.id === vnf.id) ?? vnf;
      const spent = rates?.vnfs.get(vnf.id);
      setAttribute(group, "data-state", stateOf(now));
      const [cores, cost] = costOf(now, spent);
      const lines = this.plan.inRow ? [[cores, cost].filter(Boolean).join(" · "), ""] : [cores, cost];
      told.forEach((line, index) => setText(line, short(lines[index], Math.floor((width - 20) / 6))));
      const share = spent?.share ?? spent?.cores ?? 0;
      setAttribute(bar, "width", (Math.min(share, 1) * full).toFixed(1));
      setAttribute(bar, "data-high", share > 0.9 ? "yes" : null);
    });
    return group;
  }
}

/** One word for how a VNF is. */
export function stateOf(vnf) {
  if (!vnf.running) return vnf.held ? "held" : "down";
  return vnf.ready === false ? "waiting" : "up";
}

/** What a VNF costs, in a few words: its cores; its cycles per packet, or how busy it is. */
export function costOf(vnf, spent) {
  const cores = vnf.cores.length ? `core ${vnf.cores.join(", ")}` : "";
  let told = "";
  if (spent?.perPacket !== null && spent?.perPacket !== undefined) told = `${cycles(spent.perPacket)} cyc/pkt`;
  else if (spent?.share !== null && spent?.share !== undefined) told = `${percent(spent.share)} busy`;
  else if (spent?.cores !== null && spent?.cores !== undefined) told = `${spent.cores.toFixed(2)} cores of CPU`;
  return cores || told ? [cores, told] : ["in the kernel", ""];
}

/**
 * A drawing in a frame: `update(wiring, rates)` draws anew when the shape or the frame's width has
 * changed. `hrefOf` gives the address of a VNF's own view.
 */
export function drawingIn(frame, hrefOf) {
  let drawn = null;
  let key = "";
  return (wiring, rates) => {
    const width = frame.clientWidth;
    const wanted = `${width} ${shapeOf(wiring)}`;
    if (wanted !== key) {
      key = wanted;
      drawn = new Drawing(wiring, width, hrefOf);
      frame.replaceChildren(drawn.element);
    }
    drawn.update(wiring, rates);
  };
}
