// Package journaltest provides an in-memory API server for tests of the journal and its users,
// and the tests that every journal.Store has to pass.
package journaltest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
)

// maxObjectBytes is the limit of a ConfigMap's data in Kubernetes.
const maxObjectBytes = 1 << 20

// Server holds objects as the API server does: each write gets the next
// resourceVersion of the whole server.
type Server struct {
	// Now returns the creation time of new objects.
	Now func() time.Time

	mu      sync.Mutex
	objects map[string]journal.Object
	version int
	late    []func()
}

// NewServer returns an empty server. Its objects have no creation time unless Now is set.
func NewServer() *Server {
	return &Server{objects: map[string]journal.Object{}, Now: func() time.Time { return time.Time{} }}
}

// Client returns a new client of the server.
func (s *Server) Client() *Client { return &Client{server: s} }

// DeliverLate carries out the writes that Late has delayed, in the order of their calls.
func (s *Server) DeliverLate() {
	s.mu.Lock()
	late := s.late
	s.late = nil
	s.mu.Unlock()
	for _, write := range late {
		write()
	}
}

// Objects returns copies of everything stored, in order of name.
func (s *Server) Objects() []journal.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []journal.Object
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		all = append(all, clone(s.objects[name]))
	}
	return all
}

// Tamper changes an object, even an immutable one, or deletes it if edit returns false.
func (s *Server) Tamper(name string, edit func(*journal.Object) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj := clone(s.objects[name])
	if !edit(&obj) {
		delete(s.objects, name)
		return
	}
	s.store(obj)
}

// Clone returns a server with the same objects and resourceVersion, but without delayed writes.
func (s *Server) Clone() *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Server{Now: s.Now, objects: maps.Clone(s.objects), version: s.version}
}

// Restore resets the server to the objects and the resourceVersion of another one. Delayed writes
// are kept.
func (s *Server) Restore(snapshot *Server) {
	from := snapshot.Clone()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects, s.version = from.objects, from.version
}

func (s *Server) get(name string) (journal.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, ok := s.objects[name]
	if !ok {
		return journal.Object{}, fmt.Errorf("%w: %q", journal.ErrNotFound, name)
	}
	return clone(obj), nil
}

func (s *Server) create(obj journal.Object) (journal.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.objects[obj.Name]; ok {
		return journal.Object{}, fmt.Errorf("%w: %q", journal.ErrExists, obj.Name)
	}
	if err := checkSize(obj); err != nil {
		return journal.Object{}, err
	}
	obj.Created = s.Now()
	return s.store(obj), nil
}

func (s *Server) update(obj journal.Object) (journal.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.objects[obj.Name]
	switch {
	case obj.ResourceVersion == "":
		return journal.Object{}, fmt.Errorf("%w: update without resourceVersion", journal.ErrUnavailable)
	case !ok:
		return journal.Object{}, fmt.Errorf("%w: %q", journal.ErrNotFound, obj.Name)
	case old.ResourceVersion != obj.ResourceVersion:
		return journal.Object{}, fmt.Errorf("%w: %q", journal.ErrConflict, obj.Name)
	case old.Immutable:
		return journal.Object{}, fmt.Errorf("%w: %q is immutable", journal.ErrUnavailable, obj.Name)
	}
	if err := checkSize(obj); err != nil {
		return journal.Object{}, err
	}
	obj.Created = old.Created
	return s.store(obj), nil
}

func (s *Server) touch(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, ok := s.objects[name]
	if !ok {
		return fmt.Errorf("%w: %q", journal.ErrNotFound, name)
	}
	s.store(obj)
	return nil
}

func (s *Server) delete(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.objects[name]; !ok {
		return fmt.Errorf("%w: %q", journal.ErrNotFound, name)
	}
	delete(s.objects, name)
	return nil
}

func (s *Server) list(labels map[string]string) []journal.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []journal.Object
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		obj := s.objects[name]
		if hasLabels(obj, labels) {
			found = append(found, journal.Object{
				Name: name, Labels: maps.Clone(obj.Labels),
				ResourceVersion: obj.ResourceVersion, Created: obj.Created,
			})
		}
	}
	return found
}

func hasLabels(obj journal.Object, labels map[string]string) bool {
	for key, value := range labels {
		if got, ok := obj.Labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

func (s *Server) store(obj journal.Object) journal.Object {
	s.version++
	obj.ResourceVersion = strconv.Itoa(s.version)
	s.objects[obj.Name] = clone(obj)
	return obj
}

func checkSize(obj journal.Object) error {
	size := 0
	for key, value := range obj.Data {
		size += len(key) + len(value)
	}
	for key, value := range obj.Binary {
		size += len(key) + len(value)
	}
	if size > maxObjectBytes {
		return fmt.Errorf("%w: %q has %d bytes, at most %d are allowed", journal.ErrUnavailable, obj.Name, size, maxObjectBytes)
	}
	return nil
}

func clone(obj journal.Object) journal.Object {
	obj.Labels = maps.Clone(obj.Labels)
	obj.Data = maps.Clone(obj.Data)
	obj.Binary = maps.Clone(obj.Binary)
	for key, value := range obj.Binary {
		obj.Binary[key] = slices.Clone(value)
	}
	return obj
}

// errNoAnswer is the client's error when a connection breaks after sending.
var errNoAnswer = errors.New("connection reset by peer")

// Fault is what goes wrong with a call.
type Fault int

// Faults of a call. For calls that only read, each fault except None is an error without
// effect.
const (
	// None: the call succeeds or fails as usual.
	None Fault = iota
	// Refused: nothing is sent, and the client knows that.
	Refused
	// Lost: the request does not arrive, and the client does not know that.
	Lost
	// Unanswered: the request is carried out, and the client does not know that.
	Unanswered
	// Late: the client gets no answer, and the request is carried out by DeliverLate.
	Late
	// Stopped: this call and all later ones of the client do not arrive, as if its process had
	// been killed before them.
	Stopped
	// StoppedAfter: like Stopped, but this call is still carried out.
	StoppedAfter
)

// Call is a call of a store's method.
type Call struct {
	// Number counts the calls of a client from 1.
	Number int
	// Verb is the method in lower case.
	Verb string
	// Name is the object's name, empty for list.
	Name string
}

// Client is one process's access to a Server, with faults.
type Client struct {
	server *Server

	mu      sync.Mutex
	calls   int
	stopped bool
	faults  func(Call) Fault
	latency time.Duration
}

var _ journal.Store = (*Client)(nil)

// Inject sets the faults of all further calls; nil removes them.
func (c *Client) Inject(faults func(Call) Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = faults
}

// SetLatency makes each later call wait for the given time before it does anything.
func (c *Client) SetLatency(latency time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latency = latency
}

// Calls returns how many calls the client has made, with or without a fault.
func (c *Client) Calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// Stop makes all further calls fail without an answer or an effect.
func (c *Client) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
}

func (c *Client) next(verb, name string) (Fault, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	fault := None
	if c.faults != nil {
		fault = c.faults(Call{Number: c.calls, Verb: verb, Name: name})
	}
	if c.stopped {
		fault = Lost
	}
	c.stopped = c.stopped || fault == Stopped || fault == StoppedAfter
	return fault, c.latency
}

// do makes a call, which meets the next fault. It runs effect at most once.
func (c *Client) do(ctx context.Context, verb, name string, effect func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", journal.ErrUnavailable, err)
	}
	fault, latency := c.next(verb, name)
	if latency > 0 {
		time.Sleep(latency)
	}
	switch fault {
	case None:
		return effect()
	case Refused:
		return fmt.Errorf("%w: connection refused", journal.ErrUnavailable)
	case Unanswered, StoppedAfter:
		_ = effect() // The client never learns the result.
	case Late:
		c.server.mu.Lock()
		c.server.late = append(c.server.late, func() { _ = effect() })
		c.server.mu.Unlock()
	case Lost, Stopped:
	}
	return errNoAnswer
}

// Get implements journal.Store.
func (c *Client) Get(ctx context.Context, name string) (journal.Object, error) {
	return call(ctx, c, "get", name, func() (journal.Object, error) { return c.server.get(name) })
}

// Create implements journal.Store.
func (c *Client) Create(ctx context.Context, obj journal.Object) (journal.Object, error) {
	obj = clone(obj)
	return call(ctx, c, "create", obj.Name, func() (journal.Object, error) { return c.server.create(obj) })
}

// Update implements journal.Store.
func (c *Client) Update(ctx context.Context, obj journal.Object) (journal.Object, error) {
	obj = clone(obj)
	return call(ctx, c, "update", obj.Name, func() (journal.Object, error) { return c.server.update(obj) })
}

// Touch implements journal.Store.
func (c *Client) Touch(ctx context.Context, name, _ string) error {
	return c.do(ctx, "touch", name, func() error { return c.server.touch(name) })
}

// Delete implements journal.Store.
func (c *Client) Delete(ctx context.Context, name string) error {
	return c.do(ctx, "delete", name, func() error { return c.server.delete(name) })
}

// List implements journal.Store.
func (c *Client) List(ctx context.Context, labels map[string]string) ([]journal.Object, error) {
	return call(ctx, c, "list", "", func() ([]journal.Object, error) { return c.server.list(labels), nil })
}

// call makes a call that returns something.
func call[T any](ctx context.Context, c *Client, verb, name string, effect func() (T, error)) (T, error) {
	var answer, none T
	err := c.do(ctx, verb, name, func() (err error) {
		answer, err = effect()
		return err
	})
	if err != nil {
		return none, err
	}
	return answer, nil
}
