// SPDX-License-Identifier: Apache-2.0
// The machine and what runs on it: cores and workers, memory, how to attach to ports, templates.
import { h, setText, table } from "../dom.js";
import { count, cycles, mebibytes, octets, percent, rate } from "../format.js";
import { cost } from "../readings.js";

const SLOWLY = 5;

export function nodeView(page) {
  const about = h("dl", { class: "facts" });
  const cores = table(
    [
      { title: "Core", className: "main number", text: (core) => core.core },
      { title: "For", text: (core) => core.roles.join(", ") },
      { title: "Pollers", className: "number", text: (core) => `${core.polling}${core.oversubscribed ? ", oversubscribed" : ""}`, state: (core) => (core.oversubscribed ? "bad" : null) },
      { title: "Switch worker busy", className: "number", text: (core) => percent(core.spent?.share) },
      { title: "Packets/s", className: "number", text: (core) => rate(core.spent?.packets) },
      { title: "Cycles/packet", className: "number", text: (core) => cycles(core.spent?.perPacket) },
    ],
    (core) => core.core,
    "",
  );
  const ports = table(
    [
      { title: "Port", className: "main", text: (port) => port.name },
      { title: "Kind", text: (port) => port.kind },
      { title: "Received", className: "number", text: (port) => count(port.statistics.rx_packets) },
      { title: "Sent", className: "number", text: (port) => count(port.statistics.tx_packets) },
      { title: "Dropped", className: "number", text: (port) => count((port.statistics.rx_dropped ?? 0) + (port.statistics.tx_dropped ?? 0)) },
      { title: "How to attach", className: "wide code", text: (port) => port.attach.devargs ?? port.attach.iface ?? "–" },
    ],
    (port) => port.name,
    "The node has no physical ports.",
  );
  const nics = table(
    [
      { title: "Interface", className: "main", text: (nic) => nic.name },
      { title: "Link", text: (nic) => (nic.up ? "up" : "down") },
      { title: "Speed", className: "number", text: (nic) => (nic.speed_mbps ? `${count(nic.speed_mbps)} Mbit/s` : "–") },
      { title: "MTU", className: "number", text: (nic) => nic.mtu ?? "–" },
      { title: "Address", className: "code", text: (nic) => nic.mac ?? "–" },
      { title: "PCI", text: (nic) => nic.pci ?? "–" },
      { title: "NUMA", className: "number", text: (nic) => nic.numa_node ?? "–" },
    ],
    (nic) => nic.name,
    "The kernel has no network interfaces.",
  );
  const pci = table(
    [
      { title: "PCI function", className: "main", text: (each) => each.address },
      { title: "Driver", text: (each) => each.driver ?? "none" },
      { title: "NUMA", className: "number", text: (each) => each.numa_node ?? "–" },
      { title: "Interfaces", text: (each) => each.interfaces.join(", ") || "–" },
      { title: "Virtual functions", className: "number", text: (each) => (each.virtual_functions ? `${each.virtual_functions.addresses.length} of ${each.virtual_functions.total}` : "–") },
      { title: "Used by", text: (each) => each.used_by.join(", ") || "–" },
    ],
    (each) => each.address,
    "This machine has no PCI network functions.",
  );
  const templates = table(
    [
      { title: "Template", className: "main", text: (entry) => entry.id },
      { title: "Name", text: (entry) => entry.template.name ?? "" },
      { title: "Capability", text: (entry) => entry.template["functional-capability"] ?? "" },
      { title: "Type", text: (entry) => entry.template["vnf-type"] ?? "" },
    ],
    (entry) => entry.id,
    "There are no templates.",
  );
  let before = null;
  let round = 0;
  let resources = null;
  const read = async (signal) => {
    if (round % SLOWLY === 0) {
      const [node, listed] = await Promise.all([page.api.get("/node", signal), page.api.get("/v2/nf_template", signal)]);
      resources = await page.api.get("/node/resources", signal);
      facts(about, node, resources);
      nics.update(resources.machine.nics);
      templates.update(listed.list);
      pci.update(resources.pci);
    }
    round += 1;
    const [spent, all] = await Promise.all([page.api.get("/node/switch/cycles", signal), page.api.get("/node/ports", signal)]);
    const seconds = before ? (spent.at_ns - before.at_ns) / 1e9 : 0;
    const of = (reading, core) => reading?.workers.find((worker) => worker.core === core);
    cores.update(resources.cores.map((core) => ({ ...core, spent: seconds > 0 ? cost(of(before, core.core), of(spent, core.core), seconds) : null })));
    ports.update(all);
    before = spent;
  };
  const element = h("div", { class: "view" },
    h("section", { class: "card" }, h("h1", {}, "Node"), about),
    h("section", { class: "card" }, h("h2", {}, "Cores"), cores.element),
    h("section", { class: "card" }, h("h2", {}, "Physical ports ", h("small", {}, "since the node's start")), ports.element),
    h("section", { class: "card" }, h("h2", {}, "Network interfaces of the machine"), nics.element),
    h("section", { class: "card" }, h("h2", {}, "PCI network functions"), pci.element),
    h("section", { class: "card" }, h("h2", {}, "Templates"), templates.element),
  );
  return { element, read };
}

function facts(list, node, resources) {
  const { used, total } = resources.memory_mb;
  const { cpu, memory, disks, accelerators } = resources.machine;
  const numa = cpu.numa.map((each) => `${each.node}: cores ${each.cores.join(", ")}`).join("; ");
  const wanted = [
    ["Name", node.name],
    ["Headrace", node.version],
    ["Switch", node.switch.version],
    ["Engines", Object.keys(node.engines).join(", ")],
    ["End-points", node.switch.end_points.join(", ")],
    ["Kernel", node.kernel],
    ["Memory for switch and VNFs", `${mebibytes(used)} of ${mebibytes(total)} given`],
    ["Hugepages", node.hugepages ? "used" : `not used: ${node.hugepages_note}`],
    ["Processor", `${cpu.number} × ${cpu.model ?? cpu.architecture}`],
    ["NUMA nodes", numa || "–"],
    ["Memory of the machine", `${octets(memory.available)} of ${octets(memory.total)} available`],
    ["Disks", disks.map((disk) => `${disk.path}: ${octets(disk.free)} of ${octets(disk.total)} free`).join("; ")],
    ["Accelerators", accelerators.map((each) => each.address).join(", ") || "none"],
    ["Directory", node.rundir],
  ];
  if (!list.children.length) for (const [term] of wanted) list.append(h("dt", {}, term), h("dd"));
  wanted.forEach(([, value], index) => setText(list.children[2 * index + 1], value));
}
