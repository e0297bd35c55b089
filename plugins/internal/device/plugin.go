// SPDX-License-Identifier: Apache-2.0

package device

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Plugin serves one resource to the kubelet.
type Plugin struct {
	api.UnimplementedDevicePluginServer
	kind   *Kind
	ledger *Ledger
	poke   func()

	mutex   sync.Mutex
	devices *api.ListAndWatchResponse
	changed chan struct{} // closed when `devices` is another
}

func newPlugin(kind *Kind, ledger *Ledger, poke func()) *Plugin {
	return &Plugin{
		kind: kind, ledger: ledger, poke: poke,
		devices: &api.ListAndWatchResponse{}, changed: make(chan struct{}),
	}
}

// set makes these the devices; the kubelet is told if they differ.
func (p *Plugin) set(devices []*api.Device) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	response := &api.ListAndWatchResponse{Devices: devices}
	if !proto.Equal(response, p.devices) {
		p.devices = response
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// GetDevicePluginOptions says what the kubelet need not call.
func (p *Plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch sends the devices, and again whenever one has changed.
func (p *Plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	for {
		p.mutex.Lock()
		devices, changed := p.devices, p.changed
		p.mutex.Unlock()
		if err := stream.Send(devices); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// Allocate reserves the devices at the node and tells the container in a variable which it has.
func (p *Plugin) Allocate(ctx context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	defer p.poke()
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		if err := p.ledger.Take(ctx, p.kind, container.DevicesIds); err != nil {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		variables := map[string]string{p.kind.Variable: p.kind.value(container.DevicesIds)}
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{Envs: variables})
	}
	return response, nil
}

// Server serves all resources in the kubelet's folder of device plugins.
type Server struct {
	// Folder has the kubelet's socket, and gets the plugins'.
	Folder string
	Ledger *Ledger
	// Every is how often the node is looked at.
	Every time.Duration

	wake chan struct{}
}

// NewServer gives a server; Run starts it.
func NewServer(folder string, ledger *Ledger, every time.Duration) *Server {
	return &Server{Folder: folder, Ledger: ledger, Every: every, wake: make(chan struct{}, 1)}
}

func (s *Server) kubelet() string { return filepath.Join(s.Folder, "kubelet.sock") }

func (s *Server) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run serves until the context ends. The kubelet forgets its plugins, and removes their sockets, when
// it is started again: then they are served and registered anew.
func (s *Server) Run(ctx context.Context) error {
	plugins := []*Plugin{}
	for number := range Kinds {
		plugins = append(plugins, newPlugin(&Kinds[number], s.Ledger, s.poke))
	}
	go s.look(ctx, plugins)
	for ctx.Err() == nil {
		if err := s.serve(ctx, plugins); err != nil && ctx.Err() == nil {
			slog.Error("the kubelet cannot be served; trying again", "error", err)
			s.sleep(ctx)
		}
	}
	return ctx.Err()
}

func (s *Server) sleep(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(s.Every):
	}
}

// look keeps the devices as the node has them. All are unhealthy while it does not answer.
func (s *Server) look(ctx context.Context, plugins []*Plugin) {
	for ctx.Err() == nil {
		resources, held, err := s.Ledger.Look(ctx)
		for _, plugin := range plugins {
			if err == nil {
				plugin.set(plugin.kind.devices(resources, held[plugin.kind.Name]))
			} else {
				plugin.set(unhealthy(plugin.devices.Devices))
			}
		}
		if err != nil && ctx.Err() == nil {
			slog.Error("the node does not answer", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-time.After(s.Every):
		}
	}
}

func unhealthy(devices []*api.Device) []*api.Device {
	copies := []*api.Device{}
	for _, device := range devices {
		copies = append(copies, &api.Device{ID: device.ID, Health: api.Unhealthy, Topology: device.Topology})
	}
	return copies
}

// serve listens and registers; it returns when the kubelet's or a plugin's socket is another.
func (s *Server) serve(ctx context.Context, plugins []*Plugin) error {
	before, err := os.Stat(s.kubelet())
	if err != nil {
		return err
	}
	sockets := []string{}
	for _, plugin := range plugins {
		name := "headrace-" + strings.TrimPrefix(plugin.kind.Name, "headrace.dev/") + ".sock"
		socket := filepath.Join(s.Folder, name)
		server, err := listen(socket, plugin)
		if err != nil {
			return err
		}
		defer server.Stop()
		if err := s.register(ctx, name, plugin.kind.Name); err != nil {
			return err
		}
		slog.Info("registered", "resource", plugin.kind.Name)
		sockets = append(sockets, socket)
	}
	for {
		s.sleepAtMost(ctx, time.Second)
		if ctx.Err() != nil {
			return nil
		}
		now, err := os.Stat(s.kubelet())
		if err != nil || !os.SameFile(before, now) {
			slog.Info("the kubelet has been started again")
			return nil
		}
		for _, socket := range sockets {
			if !isSocket(socket) {
				slog.Info("a socket was removed", "socket", socket)
				return nil
			}
		}
	}
}

func (s *Server) sleepAtMost(ctx context.Context, most time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(min(s.Every, most)):
	}
}

func listen(socket string, plugin *Plugin) (*grpc.Server, error) {
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, plugin)
	go func() { _ = server.Serve(listener) }()
	return server, nil
}

func (s *Server) register(ctx context.Context, endpoint, resource string) error {
	connection, err := grpc.NewClient("unix://"+s.kubelet(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request := &api.RegisterRequest{
		Version: api.Version, Endpoint: endpoint, ResourceName: resource, Options: &api.DevicePluginOptions{},
	}
	if _, err := api.NewRegistrationClient(connection).Register(ctx, request); err != nil {
		return fmt.Errorf("registering %s: %w", resource, err)
	}
	return nil
}
