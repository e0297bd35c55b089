// SPDX-License-Identifier: Apache-2.0
// Where the parts of a graph stand. No element is made here: wiring in, coordinates out.
//
// End-points and VNFs are boxes in a row, in the order in which traffic from the first end-point
// reaches them. Each of their ports hangs on the switch below by a link; within the switch an arc
// joins two ports between which rules lead. On a narrow screen the row becomes a column, with the
// switch at its right: `main` is the axis of the row or column, `cross` the other one.

const ROW = { box: 96, vnf: 178, point: 124, port: 84, gap: 26, link: 82, base: 26, level: 44, edge: 14, least: 0 };
const COLUMN = { box: 138, vnf: 94, point: 66, port: 58, gap: 16, link: 80, base: 24, level: 52, edge: 8, least: 104 };

const ownerOf = (reference) => {
  const [kind, id] = reference.split(":");
  return `${kind}:${id}`;
};

function boxesOf(wiring) {
  const points = wiring.end_points.map((point) => ({
    key: point.reference,
    kind: "point",
    id: point.id,
    item: point,
    ports: [{ reference: point.reference, label: "", item: point }],
  }));
  const vnfs = wiring.vnfs.map((vnf) => ({
    key: `vnf:${vnf.id}`,
    kind: "vnf",
    id: vnf.id,
    item: vnf,
    ports: vnf.ports.map((port) => ({ reference: port.reference, label: port.id, item: port })),
  }));
  return [...points, ...vnfs];
}

/**
 * The boxes by their distance from the first end-point, as rules lead through VNFs. What goes from
 * one end-point to another at once, past the VNFs, counts only where there is no other way.
 */
export function ordered(wiring) {
  const boxes = boxesOf(wiring);
  const through = new Map(boxes.map((box) => [box.key, new Set()]));
  const past = new Map(boxes.map((box) => [box.key, new Set()]));
  for (const path of wiring.paths) {
    if (!path.to) continue;
    const [from, to] = [ownerOf(path.from), ownerOf(path.to)];
    if (!through.has(from) || !through.has(to)) continue;
    const next = from.startsWith("vnf:") || to.startsWith("vnf:") ? through : past;
    next.get(from).add(to);
    next.get(to).add(from);
  }
  const distance = new Map();
  const reach = (first, start) => {
    distance.set(first, start);
    const waiting = [first];
    while (waiting.length) {
      const key = waiting.shift();
      for (const other of through.get(key)) {
        if (distance.has(other)) continue;
        distance.set(other, distance.get(key) + 1);
        waiting.push(other);
      }
    }
  };
  for (const first of boxes) {
    if (!distance.has(first.key)) reach(first.key, Math.max(-1, ...distance.values()) + 1);
    for (const other of past.get(first.key)) {
      if (!distance.has(other) && !through.get(other).size) reach(other, distance.get(first.key) + 1);
    }
  }
  return boxes
    .map((box, index) => ({ box, rank: [distance.get(box.key), index] }))
    .sort((a, b) => a.rank[0] - b.rank[0] || a.rank[1] - b.rank[1])
    .map(({ box }) => box);
}

/** One arc for each pair of ports, with the paths of both directions. */
function arcsOf(wiring, ports) {
  const arcs = new Map();
  for (const path of wiring.paths) {
    const a = ports.get(path.from);
    const b = path.to ? ports.get(path.to) : null;
    if (!a || !b) continue;
    const [first, second] = a.main <= b.main ? [a, b] : [b, a];
    const key = `${first.reference} ${second.reference}`;
    const arc = arcs.get(key) ?? { key, first, second, forward: null, backward: null };
    if (path.from === first.reference && a !== b) arc.forward = path;
    else arc.backward = path;
    arcs.set(key, arc);
  }
  // The widest lies deepest: each is a level below all that it spans or crosses.
  const list = [...arcs.values()].sort((a, b) => span(a) - span(b));
  list.forEach((arc, index) => {
    const under = list
      .slice(0, index)
      .filter((other) => other.first.main < arc.second.main && arc.first.main < other.second.main);
    arc.level = under.length ? Math.max(...under.map((other) => other.level)) + 1 : 0;
  });
  return list;
}

const span = (arc) => arc.second.main - arc.first.main;

/** The layout for a frame of `width` pixels. */
export function layout(wiring, width) {
  const boxes = ordered(wiring);
  const measure = (sizes) => {
    let main = 1;
    for (const box of boxes) {
      box.main = main;
      box.length = Math.max(sizes[box.kind], box.ports.length * sizes.port);
      box.depth = sizes.box;
      main += box.length + sizes.gap;
      box.ports.forEach((port, index) => {
        port.main = box.main + (box.length * (index + 0.5)) / box.ports.length;
        port.box = box;
      });
    }
    return Math.max(main - sizes.gap + 1, 120);
  };
  const inRow = measure(ROW) <= width || width >= 640;
  const sizes = inRow ? ROW : COLUMN;
  const length = measure(sizes);
  const ports = new Map(boxes.flatMap((box) => box.ports).map((port) => [port.reference, port]));
  const arcs = arcsOf(wiring, ports);
  const levels = arcs.length ? Math.max(...arcs.map((arc) => arc.level)) + 1 : 1;
  const top = sizes.box + sizes.link;
  const least = inRow ? sizes.least : Math.max(sizes.least, width - top - 2);
  const depth = Math.max(sizes.base + sizes.level * levels + sizes.edge, least);
  for (const arc of arcs) arc.depth = sizes.base + sizes.level * arc.level;
  const direct = wiring.vnfs
    .flatMap((vnf) => vnf.ports)
    .filter((port) => port.direct?.to && ports.has(port.direct.to))
    .map((port) => ({ from: ports.get(port.reference), to: ports.get(port.direct.to), reference: port.reference }));
  const drops = wiring.paths.filter((path) => !path.to && ports.has(path.from)).map((path) => ports.get(path.from));
  const size = inRow ? [length, top + depth + 2] : [top + depth + 2, length];
  return { inRow, boxes, ports, arcs, direct, drops, top, depth, length, width: size[0], height: size[1] };
}

/** Equal for wirings that are drawn alike but for what is counted. */
export function shapeOf(wiring) {
  return JSON.stringify([
    wiring.lsi,
    wiring.end_points.map((point) => [point.reference, point.type, point.where]),
    wiring.vnfs.map((vnf) => [vnf.id, vnf.template, vnf.engine, vnf.cores, vnf.ports.map((port) => [port.reference, port.kind, port.direct?.to ?? null])]),
    wiring.paths.map((path) => [path.from, path.to]),
  ]);
}
