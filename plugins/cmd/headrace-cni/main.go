// SPDX-License-Identifier: Apache-2.0

// headrace-cni is the CNI plugin of Headrace: see package cni.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"headrace/plugins/internal/cni"
)

// failure is the specification's result of an error; the library leaves the version out.
type failure struct {
	Version string `json:"cniVersion"`
	*types.Error
}

func main() {
	asked, err := again()
	if err != nil {
		fmt.Fprintln(os.Stderr, "headrace-cni: standard input cannot be read:", err)
		os.Exit(1)
	}
	functions := skel.CNIFuncs{
		Add: cni.Add, Check: cni.Check, Del: cni.Delete, GC: cni.Collect, Status: cni.Status,
	}
	supported := version.PluginSupports("0.3.1", "0.4.0", "1.0.0", "1.1.0")
	if fault := skel.PluginMainFuncsWithError(functions, supported, ""); fault != nil {
		if err := json.NewEncoder(os.Stdout).Encode(failure{asked, fault}); err != nil {
			fmt.Fprintln(os.Stderr, "headrace-cni:", err, fault)
		}
		os.Exit(1)
	}
}

// again gives the version that the configuration on standard input asks for, and leaves the
// configuration there to be read again.
func again() (string, error) {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return "", err
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return "", err
	}
	go func() {
		_, _ = writer.Write(text)
		_ = writer.Close()
	}()
	os.Stdin = reader
	var configuration struct {
		Version string `json:"cniVersion"`
	}
	if json.Unmarshal(text, &configuration) != nil || configuration.Version == "" {
		return current.ImplementedSpecVersion, nil
	}
	return configuration.Version, nil
}
