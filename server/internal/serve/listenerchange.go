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
	uses      []func()    // activate the configuration in next
}

// prepare opens the addresses that are not open yet, and prepares all for a configuration. If
// one fails, none is opened, and the error names all that fail. The goroutine that called it
// must call commit or abandon next: only one goroutine changes the listeners.
func (d *listeners) prepare(ctx context.Context, g *snapshot, listeners []config.Listener) (*listenerChange, error) {
	c := &listenerChange{listeners: d}
	var faults []error
	for i := range listeners {
		l := &listeners[i]
		o := d.at(l.Address)
		if o == nil || fixed(o.config.Load()) != fixed(l) {
			fresh, err := d.newListener(ctx, l, o)
			if err != nil {
				faults = append(faults, err)
				continue
			}
			o = fresh
			c.opened = append(c.opened, o)
		}
		c.next = append(c.next, o)
		use, err := d.prepareUse(o, g, l)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		c.uses = append(c.uses, use)
	}
	if len(faults) > 0 {
		return nil, errors.Join(append(faults, c.abandon())...)
	}
	return c, nil
}

// use activates the configuration in all listeners.
func (c *listenerChange) use() {
	for _, use := range c.uses {
		use()
	}
}

// abandon closes the new listeners.
func (c *listenerChange) abandon() error {
	var errs []error
	for _, o := range c.opened {
		errs = append(errs, o.Close(), o.front.Close())
	}
	return errors.Join(errs...)
}

// commit opens and closes addresses after use. Clients at a closed address may finish within the drain time.
func (c *listenerChange) commit() error {
	d := c.listeners
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return c.abandon()
	}
	old := d.open
	d.open = c.next
	if d.failed == nil {
		return nil // serve has not been called
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
	return nil
}

// start serves a listener. The caller holds d.mu.
func (d *listeners) start(o *listener) {
	d.serving.Go(func() {
		if err := o.front.Serve(o.Listener); err != nil {
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
	if err = errors.Join(err, o.front.Close()); err != nil {
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
		all[nameOf(o.config.Load())] = o.stats()
	}
	return all
}

// requests returns the number of HTTP requests in progress by listener name.
func (d *listeners) requests() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[string]int)
	for _, o := range d.open {
		if o.gate != nil {
			all[nameOf(o.config.Load())] = o.front.InFlight()
		}
	}
	return all
}
