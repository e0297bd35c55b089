// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// deviceInfo is what the pod is told of its socket, in its annotation network-status, as the Device
// Information Specification 1.1.0 of the Kubernetes Network Plumbing Working Group has it. The role
// and the mode are the pod's.
type deviceInfo struct {
	Type      string     `json:"type"`
	Version   string     `json:"version"`
	Memif     *memif     `json:"memif,omitempty"`
	VhostUser *vhostUser `json:"vhost-user,omitempty"`
}

type memif struct {
	Role string `json:"role"`
	Path string `json:"path"`
	Mode string `json:"mode"`
}

type vhostUser struct {
	Mode string `json:"mode"`
	Path string `json:"path"`
}

// writeDeviceInfo writes the file that the runtime asks for, if it does and there is a socket.
func (a *Attachment) writeDeviceInfo() error {
	file := a.Config.RuntimeConfig.DeviceInfo
	if file == "" || a.Config.Kind == Veth {
		return nil
	}
	info := deviceInfo{Type: a.Config.Kind, Version: "1.1.0"}
	if a.Config.Kind == Memif {
		info.Memif = &memif{Role: "slave", Path: a.socket(), Mode: "ethernet"}
	} else {
		info.VhostUser = &vhostUser{Mode: "server", Path: a.socket()}
	}
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o444)
}
