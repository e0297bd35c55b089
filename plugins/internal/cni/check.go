// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"net/http"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ipam"

	"headrace/plugins/internal/node"
)

// Check tells whether the interface is as Add has made it.
func Check(args *skel.CmdArgs) error {
	attachment, err := Load(args)
	if err != nil {
		return err
	}
	return attachment.check(context.Background())
}

func (a *Attachment) check(ctx context.Context) error {
	previous, err := a.Config.previous()
	if err != nil {
		return err
	}
	if previous == nil {
		return types.NewError(types.ErrInvalidNetworkConfig, "CHECK needs prevResult, the result of ADD", "")
	}
	if a.Config.IPAM.Type != "" {
		if err := ipam.ExecCheck(a.Config.IPAM.Type, a.Args.StdinData); err != nil {
			return delegated(err)
		}
	}
	index := -1
	for number, one := range previous.Interfaces {
		if one.Name == a.Args.IfName && one.Sandbox == a.Args.Netns {
			index = number
		}
	}
	if index < 0 {
		return broken("prevResult has no interface %s in %s", a.Args.IfName, a.Args.Netns)
	}
	if a.Config.Kind == Veth {
		var addresses []*current.IPConfig
		for _, ip := range previous.IPs {
			if ip.Interface != nil && *ip.Interface == index {
				addresses = append(addresses, ip)
			}
		}
		if err := a.checkVeth(previous.Interfaces[index], addresses); err != nil {
			return err
		}
	}
	return a.checkPort(ctx)
}

// checkPort tells whether the node has the port, and joins it to its network.
func (a *Attachment) checkPort(ctx context.Context) error {
	port, err := a.Node.Port(ctx, a.Port)
	if err != nil {
		return nodeError(err)
	}
	if port == nil || port.Number == 0 {
		return broken("the node has no port %s", a.Port)
	}
	if port.Owner == nil || *port.Owner != a.Owner {
		return broken("the node's port %s is that of another attachment", a.Port)
	}
	if a.Config.Network == "" {
		return nil
	}
	fault, err := a.Node.GraphFault(ctx, a.graph())
	if node.IsRefused(err, http.StatusNotFound) {
		return broken("the node has no graph %s", a.graph())
	}
	if err != nil {
		return nodeError(err)
	}
	if fault != "" {
		return broken("graph %s: %s", a.graph(), fault)
	}
	return nil
}

// Status tells whether interfaces can be made now.
func Status(args *skel.CmdArgs) error {
	config, err := LoadConfig(args.StdinData)
	if err != nil {
		return err
	}
	if err := node.New(config.Node).Ready(context.Background()); err != nil {
		return types.NewError(ErrNotAvailable, "the Headrace node of this machine takes no interfaces now", err.Error())
	}
	if config.IPAM.Type != "" {
		if err := ipam.ExecStatus(config.IPAM.Type, args.StdinData); err != nil {
			return delegated(err)
		}
	}
	return nil
}
