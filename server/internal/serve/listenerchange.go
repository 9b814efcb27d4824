// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/server/internal/gateway/tcp"
)

// listenerChange is a prepared change of the clients' addresses: all steps that may fail are
// done, and nothing is active.
type listenerChange struct {
	listeners *listeners
	next      []*listener // the listeners after the change, in order
	opened    []*listener // the new ones among them
	stay      map[*listener]*config.Listener
}

// prepare opens the addresses that are not open yet. If one cannot be opened, none is, and the
// error names all that cannot. The goroutine that called it must call commit or abandon next:
// only one goroutine changes the listeners.
func (d *listeners) prepare(ctx context.Context, listeners []config.Listener) (*listenerChange, error) {
	c := &listenerChange{listeners: d, stay: make(map[*listener]*config.Listener)}
	var faults []error
	for i := range listeners {
		l := &listeners[i]
		old := d.at(l.Address)
		if old != nil && kind(old.config.Load()) == kind(l) {
			c.stay[old] = l
			c.next = append(c.next, old)
			continue
		}
		o, err := d.newListener(ctx, l, old)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		c.next, c.opened = append(c.next, o), append(c.opened, o)
	}
	if len(faults) > 0 {
		return nil, errors.Join(append(faults, c.abandon())...)
	}
	return c, nil
}

// abandon closes the new listeners.
func (c *listenerChange) abandon() error {
	var errs []error
	for _, o := range c.opened {
		errs = append(errs, o.abandon())
	}
	return errors.Join(errs...)
}

// commit activates the change. Clients at a closed address may finish within the drain time.
func (c *listenerChange) commit() error {
	d := c.listeners
	var errs []error
	for o, l := range c.stay {
		errs = append(errs, d.adjust(o, l))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return errors.Join(append(errs, c.abandon())...)
	}
	old := d.open
	d.open = c.next
	if d.failed == nil {
		return errors.Join(errs...) // serve has not been called
	}
	for _, o := range old {
		if !slices.Contains(c.next, o) {
			d.log.Info("an address is closed; requests in progress there may finish", slog.String("address", o.Addr().String()))
			d.leaving = append(d.leaving, o)
			d.serving.Go(func() { d.retire(o) })
			// A client that connects to a port taken over waits in its queue for the new
			// listener; the old one must not accept it.
			<-o.shut
		}
	}
	for _, o := range c.opened {
		d.log.Info("an address is open", slog.String("address", o.Addr().String()))
		d.start(o)
	}
	return errors.Join(errs...)
}

// start serves a listener. The caller holds d.mu.
func (d *listeners) start(o *listener) {
	d.serving.Go(func() {
		if err := ended(o.front.Serve(o.Listener)); err != nil {
			d.fail(err)
		}
	})
}

// retire shuts down a listener that is no longer configured. If the program ends meanwhile,
// stop shuts it down too.
func (d *listeners) retire(o *listener) {
	ctx, cancel := context.WithTimeout(context.Background(), d.drain)
	defer cancel()
	err := o.drain(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		d.log.Warn("requests in progress at a closed address are cut off: they did not finish within the drain time", slog.String("address", o.Addr().String()))
		err = nil
	}
	if err = ended(errors.Join(err, o.front.Close())); err != nil {
		d.log.Error("an address could not be closed", slog.Any("error", err))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leaving = slices.DeleteFunc(d.leaving, func(l *listener) bool { return l == o })
}

// stats returns the traffic of the listeners by name. HTTP listeners count no bytes.
func (d *listeners) stats() map[string]tcp.Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[string]tcp.Stats)
	for _, o := range d.open {
		if o.raw != nil {
			all[o.name()] = o.raw.Stats()
		} else {
			all[o.name()] = o.gate.Stats()
		}
	}
	return all
}

// requests returns the number of HTTP requests in progress by listener name.
func (d *listeners) requests() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[string]int)
	for _, o := range d.open {
		if o.raw == nil {
			all[o.name()] = int(o.inflight.n.Load())
		}
	}
	return all
}
