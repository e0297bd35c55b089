// SPDX-License-Identifier: Apache-2.0

// Package device offers a Headrace node's cores and memory to Kubernetes as extended resources, by
// the device-plugin API v1beta1 of the kubelet.
//
// A device is healthy, so that the kubelet may give it to a pod, as long as no VNF of the node has
// it. What a pod is given is reserved at the node before the pod starts, and given back when no pod
// has it any more, which the kubelet's PodResources API tells: the device-plugin API has no word for
// that.
package device

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"headrace/plugins/internal/node"
)

// The names of the resources.
const (
	WorkerCores = "headrace.dev/worker-core"
	VnfCores    = "headrace.dev/vnf-core"
	Memory      = "headrace.dev/memory-64mi"
	Hugepages   = "headrace.dev/hugepages-64mi"
)

// UnitMB is how much memory one device of Memory or Hugepages is.
const UnitMB = 64

// prefix begins the names of the plugin's reservations; the rest is a device's id.
const prefix = "device-plugin:"

// Kind is one of the resources.
type Kind struct {
	// Name is the resource's.
	Name string
	// Variable tells a container what it has of it.
	Variable string
	// devices lists all there are, of which those in `held` are pods'.
	devices func(of *node.Resources, held map[string]bool) []*api.Device
	// reservation is what a pod that has the device takes of the node; nil if pods are given none.
	reservation func(id string) (*node.Reservation, error)
	// value is what the variable says of devices.
	value func(ids []string) string
}

// Kinds are the resources that a node offers.
var Kinds = []Kind{
	{
		Name: WorkerCores, Variable: "HEADRACE_WORKER_CORES",
		devices: func(of *node.Resources, _ map[string]bool) []*api.Device { return cores(of, "switch", nil) },
		value:   coreList,
	},
	{
		Name: VnfCores, Variable: "HEADRACE_VNF_CORES",
		devices: func(of *node.Resources, held map[string]bool) []*api.Device { return cores(of, "vnf", held) },
		reservation: func(id string) (*node.Reservation, error) {
			core, err := coreOf(id)
			return &node.Reservation{Cores: []int{core}}, err
		},
		value: coreList,
	},
	{
		Name: Memory, Variable: "HEADRACE_MEMORY_MB",
		devices:     func(of *node.Resources, held map[string]bool) []*api.Device { return units(of.Memory, held) },
		reservation: unit, value: megabytes,
	},
	{
		// The node counts one memory, hugepages or not: what is taken here is not free there.
		Name: Hugepages, Variable: "HEADRACE_HUGEPAGES_MB",
		devices:     func(of *node.Resources, held map[string]bool) []*api.Device { return units(of.Hugepages, held) },
		reservation: unit, value: megabytes,
	},
}

func unit(string) (*node.Reservation, error) {
	return &node.Reservation{Cores: []int{}, MemoryMB: UnitMB}, nil
}

func megabytes(ids []string) string { return strconv.Itoa(len(ids) * UnitMB) }

// kindOf finds a resource by its name, or gives nil.
func kindOf(name string) *Kind {
	for number := range Kinds {
		if Kinds[number].Name == name {
			return &Kinds[number]
		}
	}
	return nil
}

// cores are healthy if nobody polls on them, or the pod does that has them.
func cores(of *node.Resources, role string, held map[string]bool) []*api.Device {
	devices := []*api.Device{}
	for _, core := range of.Cores {
		if !slices.Contains(core.Roles, role) {
			continue
		}
		id := "core-" + strconv.Itoa(core.Core)
		device := &api.Device{ID: id, Health: api.Unhealthy, Topology: topology(core.Core)}
		if held[id] || core.Polling == 0 {
			device.Health = api.Healthy
		}
		devices = append(devices, device)
	}
	return devices
}

// units are what memory is counted in: those of pods, then as many as are free.
func units(of node.Memory, held map[string]bool) []*api.Device {
	devices, free := []*api.Device{}, of.Free/UnitMB
	for number := range of.Total / UnitMB {
		id := "unit-" + strconv.Itoa(number)
		device := &api.Device{ID: id, Health: api.Unhealthy}
		if held[id] {
			device.Health = api.Healthy
		} else if free > 0 {
			device.Health = api.Healthy
			free--
		}
		devices = append(devices, device)
	}
	return devices
}

func coreOf(id string) (int, error) {
	core, err := strconv.Atoi(strings.TrimPrefix(id, "core-"))
	if err != nil {
		return 0, fmt.Errorf("device %q is no core", id)
	}
	return core, nil
}

// coreList is a list of cores as in cpuset(7).
func coreList(ids []string) string {
	numbers := []int{}
	for _, id := range ids {
		if core, err := coreOf(id); err == nil {
			numbers = append(numbers, core)
		}
	}
	slices.Sort(numbers)
	texts := []string{}
	for _, core := range numbers {
		texts = append(texts, strconv.Itoa(core))
	}
	return strings.Join(texts, ",")
}

// topology is the NUMA node of a core, where the kernel says one.
func topology(core int) *api.TopologyInfo {
	found, _ := filepath.Glob(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/node*", core))
	if len(found) != 1 {
		return nil
	}
	number, err := strconv.ParseInt(strings.TrimPrefix(filepath.Base(found[0]), "node"), 10, 64)
	if err != nil {
		return nil
	}
	return &api.TopologyInfo{Nodes: []*api.NUMANode{{ID: number}}}
}

func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&os.ModeSocket != 0
}
