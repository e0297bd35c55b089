// SPDX-License-Identifier: Apache-2.0

package device

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pods "k8s.io/kubelet/pkg/apis/podresources/v1"

	"headrace/plugins/internal/node"
)

// Grace is how long a device that was given away may be unknown to the kubelet: it notes a pod's
// devices only after all of them were given.
const Grace = 30 * time.Second

// Ledger knows which devices pods have: what it has reserved at the node.
type Ledger struct {
	node *node.Client
	// podResources is the kubelet's socket of that API.
	podResources string
	now          func() time.Time

	mutex sync.Mutex
	given map[string]time.Time // names of reservations, and when they were made or first seen
}

// NewLedger gives the ledger of a node.
func NewLedger(at *node.Client, podResources string) *Ledger {
	return &Ledger{node: at, podResources: podResources, now: time.Now, given: map[string]time.Time{}}
}

func reservationName(resource, id string) string {
	return prefix + strings.TrimPrefix(resource, "headrace.dev/") + ":" + id
}

// Take reserves devices for a pod: all of them, or none.
func (l *Ledger) Take(ctx context.Context, kind *Kind, ids []string) error {
	if kind.reservation == nil {
		return fmt.Errorf("%s are the switch's; pods are given none", kind.Name)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	taken := []string{}
	for _, id := range ids {
		what, err := kind.reservation(id)
		if err == nil {
			err = l.node.Reserve(ctx, reservationName(kind.Name, id), *what)
		}
		if err != nil {
			for _, name := range taken {
				_ = l.node.Release(ctx, name)
				delete(l.given, name)
			}
			return fmt.Errorf("%s %s: %w", kind.Name, id, err)
		}
		name := reservationName(kind.Name, id)
		l.given[name] = l.now()
		taken = append(taken, name)
	}
	return nil
}

// Look gives what the node has, and per resource which devices are pods', after it has given back
// those that no pod has any more.
func (l *Ledger) Look(ctx context.Context) (*node.Resources, map[string]map[string]bool, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	reserved, err := l.node.Reservations(ctx)
	if err != nil {
		return nil, nil, err
	}
	for name := range reserved {
		if _, known := l.given[name]; !known && strings.HasPrefix(name, prefix) {
			l.given[name] = l.now() // made before this process was started
		}
	}
	if used, err := l.used(ctx); err == nil {
		for name, since := range l.given {
			if used[name] || l.now().Sub(since) < Grace {
				continue
			}
			if err := l.node.Release(ctx, name); err != nil {
				return nil, nil, err
			}
			delete(l.given, name)
		}
	}
	resources, err := l.node.Resources(ctx)
	if err != nil {
		return nil, nil, err
	}
	held := map[string]map[string]bool{}
	for _, kind := range Kinds {
		held[kind.Name] = map[string]bool{}
	}
	for name := range l.given {
		resource, id, _ := strings.Cut(strings.TrimPrefix(name, prefix), ":")
		if of := held["headrace.dev/"+resource]; of != nil {
			of[id] = true
		}
	}
	return resources, held, nil
}

// used gives the names of the reservations whose devices pods have, as the kubelet says. Without an
// answer nothing is given back.
func (l *Ledger) used(ctx context.Context) (map[string]bool, error) {
	connection, err := grpc.NewClient("unix://"+l.podResources, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	answer, err := pods.NewPodResourcesListerClient(connection).List(ctx, &pods.ListPodResourcesRequest{})
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, pod := range answer.PodResources {
		for _, container := range pod.Containers {
			for _, devices := range container.Devices {
				for _, id := range devices.DeviceIds {
					used[reservationName(devices.ResourceName, id)] = true
				}
			}
		}
	}
	return used, nil
}
