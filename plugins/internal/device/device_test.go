// SPDX-License-Identifier: Apache-2.0

package device

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	pods "k8s.io/kubelet/pkg/apis/podresources/v1"

	"headrace/plugins/internal/node"
)

// fakeNode answers as a node with cores 0 (control), 1 (switch), 2 and 3 (VNFs), and 256 MB of
// memory, of which 100 are taken.
type fakeNode struct {
	mutex    sync.Mutex
	polling  map[int]int // by the node's own
	reserved map[string]node.Reservation
	fails    bool
	// hugepagesMB are free on the machine; -1: the node uses none.
	hugepagesMB int
}

func (f *fakeNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.fails {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/node/reservations/")
	polling, taken := map[int]int{}, 100
	for core, count := range f.polling {
		polling[core] = count
	}
	for _, one := range f.reserved {
		taken += one.MemoryMB
		for _, core := range one.Cores {
			polling[core]++
		}
	}
	switch {
	case r.URL.Path == "/node/resources":
		cores := []map[string]any{}
		for core, role := range []string{"control", "switch", "vnf", "vnf"} {
			cores = append(cores, map[string]any{"core": core, "roles": []string{role}, "polling": polling[core]})
		}
		memory := map[string]int{"total": 256, "free": 256 - taken}
		huge := map[string]int{"total": 256, "free": min(256-taken, f.hugepagesMB)}
		if f.hugepagesMB < 0 {
			huge = map[string]int{"total": 0, "free": 0}
		}
		answer := map[string]any{"cores": cores, "memory_mb": memory, "hugepages_mb": huge}
		_ = json.NewEncoder(w).Encode(answer)
	case r.URL.Path == "/node/reservations":
		_ = json.NewEncoder(w).Encode(f.reserved)
	case r.Method == http.MethodPut:
		var wanted node.Reservation
		_ = json.NewDecoder(r.Body).Decode(&wanted)
		for _, core := range wanted.Cores {
			if polling[core] > 0 {
				w.WriteHeader(http.StatusConflict)
				return
			}
		}
		f.reserved[name] = wanted
		_ = json.NewEncoder(w).Encode(wanted)
	case r.Method == http.MethodDelete:
		delete(f.reserved, name)
		w.WriteHeader(http.StatusNoContent)
	}
}

func (f *fakeNode) change(work func()) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	work()
}

func (f *fakeNode) names() []string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	names := []string{}
	for name := range f.reserved {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// fakeKubelet notes who registers, and says which devices pods have.
type fakeKubelet struct {
	api.UnimplementedRegistrationServer
	pods.UnimplementedPodResourcesListerServer
	mutex    sync.Mutex
	requests map[string]*api.RegisterRequest
	used     []*pods.ContainerDevices
}

func (f *fakeKubelet) Register(_ context.Context, request *api.RegisterRequest) (*api.Empty, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.requests[request.ResourceName] = request
	return &api.Empty{}, nil
}

func (f *fakeKubelet) registered() map[string]*api.RegisterRequest {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	all := map[string]*api.RegisterRequest{}
	for name, request := range f.requests {
		all[name] = request
	}
	return all
}

func (f *fakeKubelet) List(context.Context, *pods.ListPodResourcesRequest) (*pods.ListPodResourcesResponse, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	container := &pods.ContainerResources{Name: "vnf", Devices: f.used}
	pod := &pods.PodResources{Name: "a", Namespace: "default", Containers: []*pods.ContainerResources{container}}
	return &pods.ListPodResourcesResponse{PodResources: []*pods.PodResources{pod}}, nil
}

// bed is a node and a kubelet, with the plugin's server between them.
type bed struct {
	t       *testing.T
	folder  string
	node    *fakeNode
	kubelet *fakeKubelet
	ledger  *Ledger
	stop    func()
	kubeSrv *grpc.Server
}

func newBed(t *testing.T) *bed {
	folder := t.TempDir()
	b := &bed{
		t: t, folder: folder,
		node: &fakeNode{
			polling: map[int]int{1: 1}, reserved: map[string]node.Reservation{}, hugepagesMB: 1024,
		},
		kubelet: &fakeKubelet{requests: map[string]*api.RegisterRequest{}},
	}
	listener, err := net.Listen("unix", filepath.Join(folder, "node.sock"))
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: b.node}
	go func() { _ = web.Serve(listener) }()
	b.startKubelet()
	b.ledger = NewLedger(node.New(filepath.Join(folder, "node.sock")), filepath.Join(folder, "kubelet.sock"))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		_ = NewServer(folder, b.ledger, 20*time.Millisecond).Run(ctx)
		close(done)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		b.kubeSrv.Stop()
		_ = web.Close()
	})
	return b
}

// startKubelet starts it, or starts it again; it removes the plugins' sockets as the real one does.
func (b *bed) startKubelet() {
	old, _ := filepath.Glob(filepath.Join(b.folder, "headrace-*.sock"))
	for _, socket := range old {
		_ = os.Remove(socket)
	}
	listener, err := net.Listen("unix", filepath.Join(b.folder, "kubelet.sock"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.kubeSrv = grpc.NewServer()
	api.RegisterRegistrationServer(b.kubeSrv, b.kubelet)
	pods.RegisterPodResourcesListerServer(b.kubeSrv, b.kubelet)
	go func() { _ = b.kubeSrv.Serve(listener) }()
}

func (b *bed) until(what string, holds func() bool) {
	b.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	b.t.Fatalf("never came true: %s", what)
}

func (b *bed) plugin(resource string) api.DevicePluginClient {
	b.t.Helper()
	b.until(resource+" registered", func() bool { return b.kubelet.registered()[resource] != nil })
	socket := filepath.Join(b.folder, b.kubelet.registered()[resource].Endpoint)
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = connection.Close() })
	return api.NewDevicePluginClient(connection)
}

// watch gives what the last message of ListAndWatch says: the healthy devices, and how many there are.
func (b *bed) watch(plugin api.DevicePluginClient) func() ([]string, int) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b.t.Cleanup(cancel)
	stream, err := plugin.ListAndWatch(ctx, &api.Empty{})
	if err != nil {
		b.t.Fatal(err)
	}
	var mutex sync.Mutex
	healthy, all := []string{}, 0
	go func() {
		for {
			answer, err := stream.Recv()
			if err != nil {
				return
			}
			mutex.Lock()
			healthy, all = []string{}, len(answer.Devices)
			for _, device := range answer.Devices {
				if device.Health == api.Healthy {
					healthy = append(healthy, device.ID)
				}
			}
			mutex.Unlock()
		}
	}()
	return func() ([]string, int) {
		mutex.Lock()
		defer mutex.Unlock()
		return healthy, all
	}
}

func (b *bed) untilHealthy(look func() ([]string, int), all int, want ...string) {
	b.t.Helper()
	b.until("healthy "+strings.Join(want, ","), func() bool {
		healthy, count := look()
		return count == all && slices.Equal(healthy, want)
	})
}

func allocate(plugin api.DevicePluginClient, ids ...string) (map[string]string, error) {
	container := &api.ContainerAllocateRequest{DevicesIds: ids}
	request := &api.AllocateRequest{ContainerRequests: []*api.ContainerAllocateRequest{container}}
	answer, err := plugin.Allocate(context.Background(), request)
	if err != nil {
		return nil, err
	}
	return answer.ContainerResponses[0].Envs, nil
}

func TestResourcesAreRegistered(t *testing.T) {
	b := newBed(t)
	b.until("all resources", func() bool { return len(b.kubelet.registered()) == len(Kinds) })
	for name, request := range b.kubelet.registered() {
		if request.Version != "v1beta1" || !strings.HasPrefix(name, "headrace.dev/") {
			t.Errorf("%s is registered as %v", name, request)
		}
	}
}

func TestCoresOfVnfsAreNotGivenToPods(t *testing.T) {
	b := newBed(t)
	look := b.watch(b.plugin(VnfCores))
	b.untilHealthy(look, 2, "core-2", "core-3")
	b.node.change(func() { b.node.polling[2] = 1 })
	b.untilHealthy(look, 2, "core-3")
	b.node.change(func() { b.node.polling[2] = 0 })
	b.untilHealthy(look, 2, "core-2", "core-3")
}

func TestPodsReserveWhatTheyAreGivenUntilNoneHasIt(t *testing.T) {
	b := newBed(t)
	plugin := b.plugin(VnfCores)
	look := b.watch(plugin)
	b.untilHealthy(look, 2, "core-2", "core-3")
	environment, err := allocate(plugin, "core-3", "core-2")
	if err != nil || environment["HEADRACE_VNF_CORES"] != "2,3" {
		t.Fatalf("allocated %v, %v", environment, err)
	}
	want := []string{"device-plugin:vnf-core:core-2", "device-plugin:vnf-core:core-3"}
	if names := b.node.names(); !slices.Equal(names, want) {
		t.Fatalf("reserved are %v", names)
	}
	b.kubelet.mutex.Lock()
	b.kubelet.used = []*pods.ContainerDevices{{ResourceName: VnfCores, DeviceIds: []string{"core-3"}}}
	b.kubelet.mutex.Unlock()
	time.Sleep(100 * time.Millisecond)
	if names := b.node.names(); !slices.Equal(names, want) {
		t.Fatalf("given back too early: %v", names)
	}
	b.ledger.mutex.Lock()
	b.ledger.now = func() time.Time { return time.Now().Add(2 * Grace) }
	b.ledger.mutex.Unlock()
	b.until("core 2 is given back", func() bool { return slices.Equal(b.node.names(), want[1:]) })
	b.untilHealthy(look, 2, "core-2", "core-3") // what a pod has stays healthy
}

func TestWhatTheNodeRefusesIsNotAllocated(t *testing.T) {
	b := newBed(t)
	plugin := b.plugin(VnfCores)
	b.node.change(func() { b.node.polling[3] = 1 })
	if _, err := allocate(plugin, "core-2", "core-3"); err == nil {
		t.Fatal("a core with a VNF was given away")
	}
	if names := b.node.names(); len(names) != 0 {
		t.Fatalf("still reserved: %v", names)
	}
}

func TestWorkerCoresAreSeenButNotGiven(t *testing.T) {
	b := newBed(t)
	plugin := b.plugin(WorkerCores)
	b.untilHealthy(b.watch(plugin), 1)
	if _, err := allocate(plugin, "core-1"); err == nil {
		t.Fatal("a core of the switch was given away")
	}
}

func TestMemoryIsCountedInUnits(t *testing.T) {
	b := newBed(t)
	plugin := b.plugin(Memory)
	look := b.watch(plugin)
	b.untilHealthy(look, 4, "unit-0", "unit-1") // 156 MB of 256 are free
	environment, err := allocate(plugin, "unit-1")
	if err != nil || environment["HEADRACE_MEMORY_MB"] != "64" {
		t.Fatalf("allocated %v, %v", environment, err)
	}
	b.untilHealthy(look, 4, "unit-0", "unit-1")
	if names := b.node.names(); !slices.Equal(names, []string{"device-plugin:memory-64mi:unit-1"}) {
		t.Fatalf("reserved are %v", names)
	}
}

func TestHugepagesAndMemoryAreOfOnePool(t *testing.T) {
	b := newBed(t)
	plugin := b.plugin(Hugepages)
	huge, all := b.watch(plugin), b.watch(b.plugin(Memory))
	b.untilHealthy(huge, 4, "unit-0", "unit-1") // 156 MB of 256 are free
	environment, err := allocate(plugin, "unit-1")
	if err != nil || environment["HEADRACE_HUGEPAGES_MB"] != "64" {
		t.Fatalf("allocated %v, %v", environment, err)
	}
	if names := b.node.names(); !slices.Equal(names, []string{"device-plugin:hugepages-64mi:unit-1"}) {
		t.Fatalf("reserved are %v", names)
	}
	b.untilHealthy(all, 4, "unit-0")
	b.untilHealthy(huge, 4, "unit-0", "unit-1")
}

func TestHugepagesThatTheMachineLacksAreNotGiven(t *testing.T) {
	b := newBed(t)
	look := b.watch(b.plugin(Hugepages))
	b.untilHealthy(look, 4, "unit-0", "unit-1")
	b.node.change(func() { b.node.hugepagesMB = 70 })
	b.untilHealthy(look, 4, "unit-0")
	b.node.change(func() { b.node.hugepagesMB = -1 })
	b.untilHealthy(look, 0)
}

func TestReservationsOfAnEarlierProcessAreKnown(t *testing.T) {
	b := newBed(t)
	b.node.change(func() {
		b.node.reserved["device-plugin:vnf-core:core-2"] = node.Reservation{Cores: []int{2}}
		b.node.reserved["another's"] = node.Reservation{Cores: []int{3}}
	})
	b.untilHealthy(b.watch(b.plugin(VnfCores)), 2, "core-2")
}

func TestItIsRegisteredAgainWithANewKubelet(t *testing.T) {
	b := newBed(t)
	b.until("all resources", func() bool { return len(b.kubelet.registered()) == len(Kinds) })
	b.kubeSrv.Stop()
	b.kubelet.mutex.Lock()
	b.kubelet.requests = map[string]*api.RegisterRequest{}
	b.kubelet.mutex.Unlock()
	b.startKubelet()
	b.until("all resources again", func() bool { return len(b.kubelet.registered()) == len(Kinds) })
	b.untilHealthy(b.watch(b.plugin(VnfCores)), 2, "core-2", "core-3")
}

func TestNothingIsHealthyWithoutANode(t *testing.T) {
	b := newBed(t)
	look := b.watch(b.plugin(VnfCores))
	b.untilHealthy(look, 2, "core-2", "core-3")
	b.node.change(func() { b.node.fails = true })
	b.untilHealthy(look, 2)
	b.node.change(func() { b.node.fails = false })
	b.untilHealthy(look, 2, "core-2", "core-3")
}
