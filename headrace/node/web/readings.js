// SPDX-License-Identifier: Apache-2.0
// From counters that only grow to rates: two readings, and the time between them.

const KEPT = 120;

/** The last values of something, oldest first, for a chart. */
export class History {
  constructor() {
    this.values = [];
  }

  add(value) {
    this.values.push(value);
    if (this.values.length > KEPT) this.values.shift();
  }
}

/** The growth of one counter; null if it was not there before, or has begun anew. */
export function grown(before, after) {
  if (before === null || before === undefined || after === null || after === undefined) return null;
  return after >= before ? after - before : null;
}

const perSecond = (before, after, seconds) => {
  const more = grown(before, after);
  return more === null ? null : more / seconds;
};

function sum(values) {
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((total, value) => total + value, 0) : null;
}

const byKey = (list, key) => new Map((list ?? []).map((item) => [key(item), item]));

/** What a poller, or CPU time, costs between two readings of cycles, in units per packet and cores. */
export function cost(before, after, seconds) {
  if (!before || !after) return { share: null, perPacket: null, packets: null, cores: null };
  const busy = grown(before.busy_cycles, after.busy_cycles);
  const idle = grown(before.idle_cycles, after.idle_cycles);
  const packets = grown(before.packets, after.packets);
  const cpu = grown(before.cpu_ns, after.cpu_ns);
  const all = busy === null || idle === null ? null : busy + idle;
  return {
    share: all ? busy / all : null,
    perPacket: packets && busy !== null ? busy / packets : null,
    packets: packets === null ? null : packets / seconds,
    cores: cpu === null ? null : cpu / 1e9 / seconds,
  };
}

/** The rates of a port's counters between two readings of it. */
export function portRates(before, after, seconds) {
  const of = (name) => perSecond(before?.[name], after?.[name], seconds);
  return {
    rx: of("rx_packets"),
    tx: of("tx_packets"),
    rxBytes: of("rx_bytes"),
    txBytes: of("tx_bytes"),
    dropped: sum([of("rx_dropped"), of("tx_dropped")]),
  };
}

/** The rates of a graph's wiring between two readings, by the references of its ports and paths. */
export function wiringRates(before, after) {
  const seconds = before ? (after.at_ns - before.at_ns) / 1e9 : 0;
  if (!(seconds > 0)) return null;
  const rates = { seconds, ports: new Map(), paths: new Map(), vnfs: new Map(), direct: new Map() };
  const points = byKey(before.end_points, (point) => point.reference);
  for (const point of after.end_points) {
    const was = points.get(point.reference);
    const of = (direction, name) => perSecond(was?.[direction][name], point[direction][name], seconds);
    rates.ports.set(point.reference, {
      rx: of("received", "packets"),
      tx: of("sent", "packets"),
      rxBytes: of("received", "bytes"),
      txBytes: of("sent", "bytes"),
      dropped: portRates(was?.port, point.port, seconds).dropped,
    });
  }
  const vnfs = byKey(before.vnfs, (vnf) => vnf.id);
  for (const vnf of after.vnfs) {
    const was = vnfs.get(vnf.id);
    rates.vnfs.set(vnf.id, cost(was?.cycles, vnf.cycles, seconds));
    const ports = byKey(was?.ports, (port) => port.reference);
    for (const port of vnf.ports) {
      const old = ports.get(port.reference);
      const found = portRates(old?.counters, port.counters, seconds);
      const own = perSecond(old?.dropped_by_vnf, port.dropped_by_vnf, seconds);
      rates.ports.set(port.reference, { ...found, dropped: sum([found.dropped, own]) });
      rates.direct.set(port.reference, perSecond(old?.direct?.packets, port.direct?.packets, seconds));
    }
  }
  const key = (path) => `${path.from} ${path.to}`;
  const paths = byKey(before.paths, key);
  for (const path of after.paths) {
    rates.paths.set(key(path), perSecond(paths.get(key(path))?.packets, path.packets, seconds));
  }
  rates.received = sum(after.end_points.map((point) => rates.ports.get(point.reference).rx));
  rates.sent = sum(after.end_points.map((point) => rates.ports.get(point.reference).tx));
  rates.sentBytes = sum(after.end_points.map((point) => rates.ports.get(point.reference).txBytes));
  rates.dropped = sum([...rates.ports.values()].map((port) => port.dropped));
  return rates;
}
