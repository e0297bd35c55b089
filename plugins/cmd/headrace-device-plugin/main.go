// SPDX-License-Identifier: Apache-2.0

// headrace-device-plugin is the device plugin of Headrace: see package device.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"headrace/plugins/internal/device"
	"headrace/plugins/internal/node"
)

func main() {
	socket := flag.String("node", node.Socket, "Unix socket of the node's REST API")
	folder := flag.String("plugins", "/var/lib/kubelet/device-plugins", "folder of the kubelet's device plugins")
	pods := flag.String("pod-resources", "/var/lib/kubelet/pod-resources/kubelet.sock", "socket of the kubelet's PodResources API")
	every := flag.Duration("every", 5*time.Second, "how often the node is looked at")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	server := device.NewServer(*folder, device.NewLedger(node.New(*socket), *pods), *every)
	if err := server.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		slog.Error(err.Error())
		os.Exit(1)
	}
}
