// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/plugins/pkg/ipam"
	"github.com/containernetworking/plugins/pkg/ns"

	"headrace/plugins/internal/node"
)

// Delete removes the interface; what is missing of it is no error.
func Delete(args *skel.CmdArgs) error {
	attachment, err := Load(args)
	if err != nil {
		return err
	}
	return attachment.remove(context.Background())
}

// remove undoes as much as can be undone, and gives the first error.
func (a *Attachment) remove(ctx context.Context) error {
	var failed []error
	if a.Config.IPAM.Type != "" {
		if err := ipam.ExecDel(a.Config.IPAM.Type, a.Args.StdinData); err != nil {
			failed = append(failed, delegated(err))
		}
	}
	ours, err := a.detach(ctx, a.Port, a.Owner)
	if err != nil {
		failed = append(failed, nodeError(err))
	}
	if ours {
		if err := removeLink(a.Port); err != nil {
			failed = append(failed, types.NewError(types.ErrInternal, "interface "+a.Port+" cannot be removed", err.Error()))
		}
		_ = os.Remove(a.socket())
		_ = os.Remove(a.Folder) // stays as long as another interface of the pod has a socket in it
	}
	if a.Config.RuntimeConfig.DeviceInfo != "" {
		_ = os.Remove(a.Config.RuntimeConfig.DeviceInfo)
	}
	if a.Args.Netns != "" && a.Config.Kind == Veth && err == nil {
		// The pair has gone with its other end, unless a switch holds that in a namespace of its own.
		_ = ns.WithNetNSPath(a.Args.Netns, func(ns.NetNS) error {
			return a.removeOwn()
		})
	}
	if len(failed) > 0 {
		return failed[0]
	}
	return nil
}

// removeOwn removes the pod's interface if it is one that this attachment has made.
func (a *Attachment) removeOwn() error {
	previous, err := a.Config.previous()
	if err != nil || previous == nil {
		return err
	}
	for _, one := range previous.Interfaces {
		if one.Sandbox != "" && one.Name == a.Args.IfName {
			return removeLink(one.Name)
		}
	}
	return nil
}

// detach removes a port with its graph; false if it has another owner meanwhile.
func (a *Attachment) detach(ctx context.Context, port, owner string) (bool, error) {
	return detach(ctx, a.Node, port, owner)
}

func detach(ctx context.Context, at *node.Client, port, owner string) (bool, error) {
	found, err := at.Port(ctx, port)
	if err != nil {
		return false, err
	}
	if found != nil && (found.Owner == nil || *found.Owner != owner) {
		return false, nil
	}
	if err := at.DeleteGraph(ctx, "cni-"+port); err != nil {
		return true, err
	}
	err = at.Detach(ctx, port, owner)
	if node.IsRefused(err, http.StatusConflict) {
		return false, nil
	}
	return true, err
}

// Collect removes the ports of a network whose attachments are not among the valid ones (GC).
func Collect(args *skel.CmdArgs) error {
	config, err := LoadConfig(args.StdinData)
	if err != nil {
		return err
	}
	ctx, at := context.Background(), node.New(config.Node)
	ports, err := at.Ports(ctx)
	if err != nil {
		return nodeError(err)
	}
	valid := map[string]bool{}
	for _, one := range config.ValidAttachments {
		valid[ownerOf(config.Name, one.ContainerID, one.IfName)] = true
	}
	var failed []error
	for _, port := range ports {
		if port.Owner == nil || !strings.HasPrefix(*port.Owner, ownersOf(config.Name)) || valid[*port.Owner] {
			continue
		}
		ours, err := detach(ctx, at, port.Name, *port.Owner)
		if err == nil && ours && port.Kind == "system" {
			err = removeLink(port.Name)
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	if config.IPAM.Type != "" {
		failed = append(failed, invoke.DelegateGC(ctx, config.IPAM.Type, args.StdinData, nil))
	}
	if err := errors.Join(failed...); err != nil {
		return types.NewError(types.ErrInternal, "not all that is stale could be removed", err.Error())
	}
	return nil
}
