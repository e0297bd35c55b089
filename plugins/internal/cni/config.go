// SPDX-License-Identifier: Apache-2.0

// Package cni puts an interface of a pod on the switch of the Headrace node that the pod is on, by
// the Container Network Interface (CNI specification 1.1.0, and the versions before it from 0.3.1).
//
// An interface is a veth pair, whose other end is in the pod, or the socket of a memif or vhost-user
// port for a program in the pod that does without the kernel. On the node it is a physical port,
// which service graphs use by its name.
package cni

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"headrace/plugins/internal/node"
)

// The codes of errors that are the plugin's own (the specification leaves 100 and up to plugins),
// and those of STATUS, which the library has no names for.
const (
	ErrRefused         uint = 100
	ErrInterfaceExists uint = 101
	ErrBroken          uint = 102
	ErrNotAvailable    uint = 50
)

// Kinds of interfaces, by the node's names of its ports.
const (
	Veth      = "veth"
	Memif     = "memif"
	VhostUser = "vhost-user"
)

const defaultSockets = "/run/headrace/pods"

var portName = regexp.MustCompile(`^[A-Za-z0-9_.\-]{1,15}$`)

// Config is the plugin's configuration.
type Config struct {
	types.NetConf
	// Kind of the interface: veth (the default), memif or vhost-user.
	Kind string `json:"kind"`
	// Node is the Unix socket of the node's REST API.
	Node string `json:"node"`
	// Network joins the interfaces of all pods that name it, by an internal group of the node.
	Network string `json:"network"`
	// Sockets is the folder of the sockets of memif and vhost-user ports, a folder for each pod.
	Sockets string `json:"sockets"`
	MTU     int    `json:"mtu"`
	// Args are those of the pod's network selection.
	Args struct {
		CNI struct {
			// Port is the name of the node's port, for graphs; otherwise it is made of the pod's.
			Port string `json:"port"`
		} `json:"cni"`
	} `json:"args"`
	RuntimeConfig struct {
		MAC        string `json:"mac"`
		DeviceInfo string `json:"CNIDeviceInfoFile"`
	} `json:"runtimeConfig"`
}

// kubernetesArgs are what the runtimes of Kubernetes say of the pod.
type kubernetesArgs struct {
	types.CommonArgs
	K8S_POD_NAMESPACE types.UnmarshallableString //nolint:revive // the name is the key
	K8S_POD_NAME      types.UnmarshallableString //nolint:revive // the name is the key
}

// Attachment is one interface of one container, and all that was asked for it.
type Attachment struct {
	Config *Config
	Args   *skel.CmdArgs
	// Port is the name of the node's port, and for a veth also of the interface at the node's end.
	Port string
	// Owner marks the node's port as this attachment's.
	Owner string
	// Folder has the pod's sockets.
	Folder string
	Node   *node.Client
}

// LoadConfig reads the plugin's configuration.
func LoadConfig(stdin []byte) (*Config, error) {
	config := &Config{Kind: Veth, Node: node.Socket, Sockets: defaultSockets}
	if err := json.Unmarshal(stdin, config); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "the configuration is no JSON of this plugin", err.Error())
	}
	invalid := func(format string, values ...any) error {
		return types.NewError(types.ErrInvalidNetworkConfig, "invalid configuration", fmt.Sprintf(format, values...))
	}
	switch config.Kind {
	case Veth, Memif, VhostUser:
	default:
		return nil, invalid("kind: there is no %q; there are veth, memif, vhost-user", config.Kind)
	}
	if name := config.Args.CNI.Port; name != "" && !portName.MatchString(name) {
		return nil, invalid("args.cni.port: %q is no name of a port (1 to 15 of A-Z a-z 0-9 _ . -)", name)
	}
	if config.MTU < 0 || config.MTU > 65535 {
		return nil, invalid("mtu: %d is not between 0 (the kernel's own) and 65535", config.MTU)
	}
	if !filepath.IsAbs(config.Node) || !filepath.IsAbs(config.Sockets) {
		return nil, invalid("node and sockets have to be absolute paths")
	}
	if err := version.ParsePrevResult(&config.NetConf); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "the configuration's prevResult cannot be read", err.Error())
	}
	return config, nil
}

// Load reads what was asked for one interface.
func Load(args *skel.CmdArgs) (*Attachment, error) {
	config, err := LoadConfig(args.StdinData)
	if err != nil {
		return nil, err
	}
	pod := kubernetesArgs{CommonArgs: types.CommonArgs{IgnoreUnknown: true}}
	if err := types.LoadArgs(args.Args, &pod); err != nil {
		return nil, types.NewError(types.ErrInvalidEnvironmentVariables, "CNI_ARGS cannot be read", err.Error())
	}
	name := args.ContainerID
	if pod.K8S_POD_NAME != "" {
		name = string(pod.K8S_POD_NAMESPACE) + "_" + string(pod.K8S_POD_NAME)
	}
	port := config.Args.CNI.Port
	if port == "" {
		port = PortName(name, args.IfName)
	}
	return &Attachment{
		Config: config,
		Args:   args,
		Port:   port,
		Owner:  ownerOf(config.Name, args.ContainerID, args.IfName),
		Folder: filepath.Join(config.Sockets, filepath.Base(name)),
		Node:   node.New(config.Node),
	}, nil
}

// PortName gives the name of the port of a pod's interface; `pod` is NAMESPACE_NAME, or the id of a
// container that is no pod.
func PortName(pod, ifName string) string {
	sum := sha256.Sum256([]byte(pod + "/" + ifName))
	return "pod" + hex.EncodeToString(sum[:6])
}

func ownerOf(network, containerID, ifName string) string {
	return ownersOf(network) + containerID + "/" + ifName
}

// ownersOf begins the owners of all ports of a network.
func ownersOf(network string) string { return "cni/" + network + "/" }

func (a *Attachment) socket() string { return filepath.Join(a.Folder, a.Args.IfName+".sock") }

func (a *Attachment) graph() string { return "cni-" + a.Port }

// previous gives the result of the plugins before this one, in the current form.
func (c *Config) previous() (*current.Result, error) {
	if c.PrevResult == nil {
		return nil, nil
	}
	result, err := current.NewResultFromResult(c.PrevResult)
	if err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "the configuration's prevResult cannot be read", err.Error())
	}
	return result, nil
}
