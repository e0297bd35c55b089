// SPDX-License-Identifier: Apache-2.0

// Package node is a client of a Headrace node's REST API, through the node's Unix socket.
package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Socket is where a node listens if node.yaml says nothing else.
const Socket = "/run/headrace/api.sock"

const timeout = 60 * time.Second

// Refused is what the node answers to a request that it does not carry out.
type Refused struct {
	Code    int
	Module  string
	Message string
}

func (r *Refused) Error() string {
	return fmt.Sprintf("the node refuses it (%d): %s", r.Code, r.Message)
}

// Unreachable says that no node answers at its socket.
type Unreachable struct {
	Socket string
	Cause  error
}

func (u *Unreachable) Error() string {
	return fmt.Sprintf("no Headrace node answers at %s: %v", u.Socket, u.Cause)
}

func (u *Unreachable) Unwrap() error { return u.Cause }

// IsRefused tells whether an error is a refusal of the node with this HTTP code.
func IsRefused(err error, code int) bool {
	var refused *Refused
	return errors.As(err, &refused) && refused.Code == code
}

// Port is a port of LSI-0. Owner is nil for a port of node.yaml.
type Port struct {
	Name   string  `json:"name"`
	Kind   string  `json:"kind"`
	Number int     `json:"ofport"`
	Owner  *string `json:"owner"`
}

// Core is a processor core of the node, what it is for, and how many programs poll on it.
type Core struct {
	Core    int      `json:"core"`
	Roles   []string `json:"roles"`
	Polling int      `json:"polling"`
	Owner   *string  `json:"reserved_by"`
}

// Resources is the part of GET /node/resources that pods may take of.
type Resources struct {
	Cores     []Core `json:"cores"`
	Memory    Memory `json:"memory_mb"`
	Hugepages Memory `json:"hugepages_mb"`
}

// Memory is how many MB the switch and the VNFs may have together, and what nobody has of it.
type Memory struct {
	Total int `json:"total"`
	Free  int `json:"free"`
}

// Client asks one node.
type Client struct {
	socket string
	http   *http.Client
}

// New gives a client of the node that listens at the Unix socket.
func New(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &Client{socket, &http.Client{
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
		Timeout:   timeout,
	}}
}

// Ready returns nil if the node can deploy graphs.
func (c *Client) Ready(ctx context.Context) error {
	return c.ask(ctx, http.MethodGet, "/ready", nil, nil)
}

// Ports lists the ports of LSI-0.
func (c *Client) Ports(ctx context.Context) ([]Port, error) {
	var ports []Port
	return ports, c.ask(ctx, http.MethodGet, "/node/ports", nil, &ports)
}

// Port gives a port by its name, or nil.
func (c *Client) Port(ctx context.Context, name string) (*Port, error) {
	ports, err := c.Ports(ctx)
	if err != nil {
		return nil, err
	}
	for _, port := range ports {
		if port.Name == name {
			return &port, nil
		}
	}
	return nil, nil
}

// Attach makes a port of LSI-0; again with the same owner is no error.
func (c *Client) Attach(ctx context.Context, name, kind string, options map[string]string, owner string) error {
	body := map[string]any{"kind": kind, "options": options, "owner": owner}
	return c.ask(ctx, http.MethodPut, "/node/ports/"+url.PathEscape(name), body, nil)
}

// Detach removes a port of this owner, also if graphs use it; none is no error.
func (c *Client) Detach(ctx context.Context, name, owner string) error {
	query := url.Values{"owner": {owner}, "force": {"true"}}
	path := "/node/ports/" + url.PathEscape(name) + "?" + query.Encode()
	err := c.ask(ctx, http.MethodDelete, path, nil, nil)
	if IsRefused(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// PutGraph deploys a graph, or changes it.
func (c *Client) PutGraph(ctx context.Context, id string, document any) error {
	return c.ask(ctx, http.MethodPut, "/NF-FG/"+url.PathEscape(id), document, nil)
}

// DeleteGraph removes a graph; none is no error.
func (c *Client) DeleteGraph(ctx context.Context, id string) error {
	err := c.ask(ctx, http.MethodDelete, "/NF-FG/"+url.PathEscape(id), nil, nil)
	if IsRefused(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// GraphFault says what is wrong with a deployed graph; it is empty if nothing is.
func (c *Client) GraphFault(ctx context.Context, id string) (string, error) {
	var status struct {
		Status  string `json:"status"`
		Message string `json:"message"`
	}
	if err := c.ask(ctx, http.MethodGet, "/NF-FG/status/"+url.PathEscape(id), nil, &status); err != nil {
		return "", err
	}
	if status.Status == "error" {
		return status.Message, nil
	}
	return "", nil
}

// Resources tells which cores and how much memory the node has, and what of it is taken.
func (c *Client) Resources(ctx context.Context) (*Resources, error) {
	resources := &Resources{}
	return resources, c.ask(ctx, http.MethodGet, "/node/resources", nil, resources)
}

// ask makes a request with a JSON body, if there is one, and reads the JSON answer into `answer`.
func (c *Client) ask(ctx context.Context, method, path string, body, answer any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, content)
	if err != nil {
		return err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return &Unreachable{c.socket, err}
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return &Unreachable{c.socket, err}
	}
	if response.StatusCode >= http.StatusBadRequest {
		refused := &Refused{Code: response.StatusCode, Message: string(text)}
		_ = json.Unmarshal(text, refused)
		return refused
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// Reservation is what others than the node's VNFs have of its cores and memory.
type Reservation struct {
	Cores    []int `json:"cores"`
	MemoryMB int   `json:"memory_mb"`
}

// Reservations lists what is reserved, by name.
func (c *Client) Reservations(ctx context.Context) (map[string]Reservation, error) {
	var all map[string]Reservation
	return all, c.ask(ctx, http.MethodGet, "/node/reservations", nil, &all)
}

// Reserve takes cores and memory from what VNFs may be given, in place of what the name had.
func (c *Client) Reserve(ctx context.Context, name string, what Reservation) error {
	return c.ask(ctx, http.MethodPut, "/node/reservations/"+url.PathEscape(name), what, nil)
}

// Release gives back what was reserved under a name; nothing is no error.
func (c *Client) Release(ctx context.Context, name string) error {
	err := c.ask(ctx, http.MethodDelete, "/node/reservations/"+url.PathEscape(name), nil, nil)
	if IsRefused(err, http.StatusNotFound) {
		return nil
	}
	return err
}
