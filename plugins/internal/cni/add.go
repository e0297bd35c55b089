// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"errors"
	"net/http"
	"os"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ipam"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"headrace/plugins/internal/node"
)

// Add makes the interface; what it can't finish it undoes.
func Add(args *skel.CmdArgs) error {
	attachment, err := Load(args)
	if err != nil {
		return err
	}
	result, err := attachment.add(context.Background())
	if err != nil {
		return err
	}
	return types.PrintResult(result, attachment.Config.CNIVersion)
}

func (a *Attachment) add(ctx context.Context) (result *current.Result, err error) {
	sandbox, err := ns.GetNS(a.Args.Netns)
	if err != nil {
		return nil, types.NewError(types.ErrInvalidNetNS, "CNI_NETNS is no network namespace", err.Error())
	}
	defer func() { _ = sandbox.Close() }()
	if err := a.absent(ctx, sandbox); err != nil {
		return nil, err
	}
	// From here on something may have been made.
	defer func() {
		if err != nil {
			_ = a.remove(ctx)
		}
	}()
	var made []*current.Interface
	if a.Config.Kind == Veth {
		made, err = a.makeVeth(sandbox)
	} else {
		made, err = a.makeFolder()
	}
	if err != nil {
		return nil, err
	}
	addresses, err := a.addresses(sandbox)
	if err != nil {
		return nil, err
	}
	kind, options := a.portOptions()
	if err := a.Node.Attach(ctx, a.Port, kind, options, a.Owner); err != nil {
		return nil, nodeError(err)
	}
	if a.Config.Network != "" {
		if err := a.Node.PutGraph(ctx, a.graph(), a.joining()); err != nil {
			return nil, nodeError(err)
		}
	}
	if err := a.writeDeviceInfo(); err != nil {
		return nil, types.NewError(types.ErrIOFailure, "the device information cannot be written", err.Error())
	}
	result, err = a.Config.previous()
	if err != nil {
		return nil, err
	}
	if result == nil {
		result = &current.Result{CNIVersion: current.ImplementedSpecVersion, DNS: a.Config.DNS}
	}
	pod := len(result.Interfaces) + len(made) - 1 // the pod's is the last
	for _, ip := range addresses.IPs {
		ip.Interface = current.Int(pod)
	}
	result.Interfaces = append(result.Interfaces, made...)
	result.IPs = append(result.IPs, addresses.IPs...)
	result.Routes = append(result.Routes, addresses.Routes...)
	return result, nil
}

// absent refuses an interface that is there already, and a port that another attachment has, such as
// that of an earlier pod of the same name which is not gone yet.
func (a *Attachment) absent(ctx context.Context, sandbox ns.NetNS) error {
	err := sandbox.Do(func(ns.NetNS) error {
		if _, err := netlink.LinkByName(a.Args.IfName); err == nil {
			return types.NewError(ErrInterfaceExists, "the container has an interface "+a.Args.IfName+" already", "")
		}
		return nil
	})
	var known *types.Error
	if errors.As(err, &known) {
		return known
	}
	if err != nil { // a file of /proc passes for a namespace until it is entered
		return types.NewError(types.ErrInvalidNetNS, "CNI_NETNS is no network namespace", err.Error())
	}
	port, err := a.Node.Port(ctx, a.Port)
	if err != nil {
		return nodeError(err)
	}
	switch {
	case port == nil:
		return nil
	case port.Owner == nil:
		return types.NewError(ErrRefused, "the node has a port "+a.Port+" in node.yaml", "")
	case *port.Owner == a.Owner:
		return types.NewError(ErrInterfaceExists, "the container has an interface "+a.Args.IfName+" already", "")
	default:
		return types.NewError(types.ErrTryAgainLater, "the node's port "+a.Port+" is in use", "by "+*port.Owner)
	}
}

// addresses asks the IPAM plugin, if there is one, and gives the pod's interface what it answers.
func (a *Attachment) addresses(sandbox ns.NetNS) (*current.Result, error) {
	if a.Config.IPAM.Type == "" {
		return &current.Result{}, nil
	}
	answer, err := ipam.ExecAdd(a.Config.IPAM.Type, a.Args.StdinData)
	if err != nil {
		return nil, delegated(err)
	}
	result, err := current.NewResultFromResult(answer)
	if err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "the answer of the IPAM plugin cannot be read", err.Error())
	}
	if len(result.IPs) == 0 {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, "the IPAM plugin gives no address", a.Config.IPAM.Type)
	}
	if a.Config.Kind != Veth {
		return result, nil // the program behind the socket configures itself
	}
	result.Interfaces = []*current.Interface{{Name: a.Args.IfName, Sandbox: a.Args.Netns}}
	for _, ip := range result.IPs {
		ip.Interface = current.Int(0)
	}
	err = sandbox.Do(func(ns.NetNS) error { return ipam.ConfigureIface(a.Args.IfName, result) })
	if err != nil {
		return nil, types.NewError(types.ErrInternal, "the pod's interface does not take its addresses", err.Error())
	}
	return result, nil
}

// portOptions gives the kind and options of the node's port.
func (a *Attachment) portOptions() (string, map[string]string) {
	switch a.Config.Kind {
	case Memif:
		return Memif, map[string]string{"socket": a.socket(), "id": "0", "role": "server"}
	case VhostUser:
		return VhostUser, map[string]string{"path": a.socket()}
	default:
		return "system", map[string]string{"iface": a.Port}
	}
}

// makeFolder makes the folder of the pod's sockets, in which its programs may make their own.
func (a *Attachment) makeFolder() ([]*current.Interface, error) {
	err := os.MkdirAll(a.Folder, 0o755)
	if err == nil {
		err = os.Chmod(a.Folder, 0o777)
	}
	if err != nil {
		return nil, types.NewError(types.ErrIOFailure, "the folder of the pod's sockets cannot be made", err.Error())
	}
	pod := &current.Interface{
		Name: a.Args.IfName, Sandbox: a.Args.Netns, Mac: a.Config.RuntimeConfig.MAC, SocketPath: a.socket(),
	}
	return []*current.Interface{pod}, nil
}

// joining is the graph that puts the port into the internal group of the network.
func (a *Attachment) joining() any {
	rule := func(id, from, to string) map[string]any {
		return map[string]any{
			"id": id, "priority": 1,
			"match":   map[string]any{"port_in": "endpoint:" + from},
			"actions": []any{map[string]any{"output_to_port": "endpoint:" + to}},
		}
	}
	return map[string]any{"forwarding-graph": map[string]any{
		"name": a.Config.Name + " " + a.Args.ContainerID,
		"VNFs": []any{},
		"end-points": []any{
			map[string]any{"id": "pod", "type": "interface", "interface": map[string]any{"if-name": a.Port}},
			map[string]any{"id": "network", "type": "internal", "internal": map[string]any{"internal-group": a.Config.Network}},
		},
		"big-switch": map[string]any{"flow-rules": []any{rule("out", "pod", "network"), rule("in", "network", "pod")}},
	}}
}

// nodeError is the error of CNI for one of the node's.
func nodeError(err error) error {
	var refused *node.Refused
	if !errors.As(err, &refused) {
		return types.NewError(types.ErrTryAgainLater, "the Headrace node of this machine does not answer", err.Error())
	}
	if refused.Code == http.StatusConflict || refused.Code == http.StatusServiceUnavailable {
		return types.NewError(types.ErrTryAgainLater, "the Headrace node cannot do it now", refused.Message)
	}
	return types.NewError(ErrRefused, "the Headrace node refuses it", refused.Message)
}

// delegated passes on an error of the IPAM plugin.
func delegated(err error) error {
	var theirs *types.Error
	if errors.As(err, &theirs) {
		return theirs
	}
	return types.NewError(types.ErrInternal, "the IPAM plugin fails", err.Error())
}
