// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"errors"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ip"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
)

// What the kernel leaves to be done by the device, which a switch without the kernel does not do.
var offloads = []string{
	"tx-checksum-ip-generic", "tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation",
	"tx-udp-segmentation", "tx-generic-segmentation", "tx-scatter-gather",
}

// makeVeth makes the pair: an interface of the port's name for the node, and the pod's.
func (a *Attachment) makeVeth(sandbox ns.NetNS) ([]*current.Interface, error) {
	// One that is here belongs to an attachment whose port the node does not have any more.
	if err := removeLink(a.Port); err != nil {
		return nil, types.NewError(types.ErrInternal, "an earlier interface "+a.Port+" cannot be removed", err.Error())
	}
	var host, pod *current.Interface
	err := sandbox.Do(func(hostNS ns.NetNS) error {
		mac := a.Config.RuntimeConfig.MAC
		hostLink, podLink, err := ip.SetupVethWithName(a.Args.IfName, a.Port, a.Config.MTU, mac, hostNS)
		if err != nil {
			return types.NewError(types.ErrInternal, "the pair of interfaces cannot be made", err.Error())
		}
		host = &current.Interface{Name: hostLink.Name, Mac: hostLink.HardwareAddr.String(), Mtu: podLink.MTU}
		pod = &current.Interface{
			Name: podLink.Name, Mac: podLink.HardwareAddr.String(), Mtu: podLink.MTU, Sandbox: sandbox.Path(),
		}
		return withoutOffloads(a.Args.IfName)
	})
	if err == nil {
		err = withoutOffloads(a.Port)
	}
	return []*current.Interface{host, pod}, err
}

// withoutOffloads makes the kernel send whole frames with complete checksums through an interface.
func withoutOffloads(name string) error {
	fail := func(err error) error {
		return types.NewError(types.ErrInternal, "the offloads of "+name+" cannot be switched off", err.Error())
	}
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return fail(err)
	}
	defer tool.Close()
	known, err := tool.FeatureNames(name)
	if err != nil {
		return fail(err)
	}
	off := map[string]bool{}
	for _, feature := range offloads {
		if _, there := known[feature]; there {
			off[feature] = false
		}
	}
	if err := tool.Change(name, off); err != nil {
		return fail(err)
	}
	return nil
}

// removeLink removes an interface; none is no error.
func removeLink(name string) error {
	if err := ip.DelLinkByName(name); err != nil && !errors.Is(err, ip.ErrLinkNotFound) {
		return err
	}
	return nil
}

// checkVeth tells what of the pod's interface is not as it was made.
func (a *Attachment) checkVeth(was *current.Interface, addresses []*current.IPConfig) error {
	sandbox, err := ns.GetNS(a.Args.Netns)
	if err != nil {
		return types.NewError(types.ErrInvalidNetNS, "CNI_NETNS is no network namespace", err.Error())
	}
	defer func() { _ = sandbox.Close() }()
	if host, err := netlink.LinkByName(a.Port); err == nil && host.Attrs().Flags&1 == 0 {
		return broken("interface %s of the node is down", a.Port)
	}
	return sandbox.Do(func(ns.NetNS) error {
		link, err := netlink.LinkByName(a.Args.IfName)
		if err != nil {
			return broken("the container has no interface %s", a.Args.IfName)
		}
		if link.Type() != "veth" {
			return broken("the container's %s is of type %s, no veth", a.Args.IfName, link.Type())
		}
		if have := link.Attrs().HardwareAddr.String(); was.Mac != "" && have != was.Mac {
			return broken("the container's %s has the address %s instead of %s", a.Args.IfName, have, was.Mac)
		}
		have, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return broken("the addresses of the container's %s cannot be read: %v", a.Args.IfName, err)
		}
	wanted:
		for _, want := range addresses {
			for _, one := range have {
				if one.IPNet.String() == want.Address.String() {
					continue wanted
				}
			}
			return broken("the container's %s lacks the address %s", a.Args.IfName, &want.Address)
		}
		return nil
	})
}

func broken(format string, values ...any) error {
	return types.NewError(ErrBroken, "the attachment is not as it was made", fmt.Sprintf(format, values...))
}
