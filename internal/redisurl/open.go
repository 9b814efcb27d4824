// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisurl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/internal/storeurl"
)

const (
	// patience bounds the making of a connection and its silence. A server that hangs for
	// longer is dialled again, so that its return is noticed without waiting for
	// retransmissions of the network.
	patience = storeurl.MostTimeout
	// refresh is the interval at which sentinels or a Cluster are asked for their nodes, in
	// addition to when an error suggests a change. The client adds a wait of up to a second
	// for a Cluster.
	refresh = 250 * time.Millisecond

	largestFile = 1 << 20 // bytes
)

// Names of the variables of user and password, for a line without them.
const (
	UserVariable     = storeurl.UserVariable
	PasswordVariable = storeurl.PasswordVariable
)

// Target holds the addresses of a store's servers. Make one with [Parse] or [ParseSecret].
type Target struct{ url *storeurl.URL }

// Parse reads a line that others can see, such as a flag: a password in it is refused. It
// calls getenv, which may be nil, for [UserVariable] and [PasswordVariable], and for the
// variable named by a line such as env:REDIS_URL. The error joins all faults and quotes
// nothing of the line.
func Parse(line string, getenv func(string) string) (*Target, error) {
	u, err := storeurl.Parse(line, getenv)
	if err != nil {
		return nil, err
	}
	return &Target{u}, nil
}

// ParseSecret reads a URL that may hold a password, as [Parse] does.
func ParseSecret(line string) (*Target, error) {
	u, err := storeurl.ParseSecret(line)
	if err != nil {
		return nil, err
	}
	return &Target{u}, nil
}

// Timeout returns how long a decision may wait for the servers, or zero if the line has no
// timeout.
func (t *Target) Timeout() time.Duration { return t.url.Timeout }

// String returns the URL without user and parameters, which may be shown.
func (t *Target) String() string { return t.url.String() }

// Full returns the whole URL, with user and password, for [ParseSecret].
func (t *Target) Full() string { return t.url.Full() }

// Cluster reports whether the servers are a Cluster.
func (t *Target) Cluster() bool { return t.url.Kind == storeurl.Cluster }

// Single reports whether there is one server, at one address.
func (t *Target) Single() bool { return t.url.Kind == storeurl.Single }

// Prefix returns the prefix of keys in the URL, or "".
func (t *Target) Prefix() string { return t.url.Parameters["prefix"] }

// Secret returns the content of the secret's file, or nil if the URL names none.
func (t *Target) Secret() ([]byte, error) {
	secret, err := t.file("secret_file")
	if err != nil {
		return nil, err
	}
	if err := storeurl.CheckNames("", secret); err != nil {
		return nil, fmt.Errorf("secret_file: %w", err)
	}
	return secret, nil
}

// Option returns the options of the client. It reads the files that the line names. The
// password's file is read again for every new connection, so that a changed password needs no
// restart, except with sentinels, as the client takes their passwords from the same function.
func (t *Target) Option() (rueidis.ClientOption, error) {
	u := t.url
	o := rueidis.ClientOption{
		InitAddress: u.Addresses, SelectDB: u.Database, Username: u.User, Password: u.Password, ClientName: "sluice",
		Dialer: net.Dialer{Timeout: patience, KeepAlive: patience}, ConnWriteTimeout: patience,
		ForceSingleClient: u.Kind == storeurl.Single, DisableCache: true, DisableRetry: true,
	}
	secrets := []struct {
		name string
		into *string
	}{{"password_file", &o.Password}, {"sentinel_password_file", &o.Sentinel.Password}}
	for _, f := range secrets {
		text, err := t.file(f.name)
		if err != nil {
			return o, err
		}
		if len(text) > 0 {
			*f.into = strings.TrimRight(string(text), "\r\n")
		}
	}
	if u.Parameters["password_file"] != "" && u.Kind != storeurl.Sentinel { // whose sentinels would get it, too
		o.AuthCredentialsFn = t.passwords(o.Password)
	}
	if u.TLS {
		var err error
		if o.TLSConfig, err = t.tls(); err != nil {
			return o, err
		}
	}
	switch u.Kind {
	case storeurl.Sentinel:
		o.Sentinel.MasterSet, o.Sentinel.Username = u.Master, u.Parameters["sentinel_user"]
		o.Sentinel.Dialer, o.Sentinel.TLSConfig, o.Sentinel.TopologyRefreshInterval = o.Dialer, o.TLSConfig, refresh
	case storeurl.Cluster:
		o.ClusterOption.ShardsRefreshInterval = refresh
	case storeurl.Single:
	}
	return o, nil
}

// passwords returns a function that reads the password again for each new connection. If the
// file cannot be read, it returns the last password.
func (t *Target) passwords(last string) func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	var mu sync.Mutex
	return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		mu.Lock()
		defer mu.Unlock()
		if text, err := t.file("password_file"); err == nil {
			last = strings.TrimRight(string(text), "\r\n")
		}
		return rueidis.AuthCredentials{Username: t.url.User, Password: last}, nil
	}
}

func (t *Target) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	text, err := t.file("ca_file")
	if err != nil {
		return nil, err
	}
	if text != nil {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, errors.New("ca_file: holds no certificate in PEM")
		}
	}
	if t.url.Parameters["cert_file"] == "" {
		return c, nil
	}
	cert, err := t.file("cert_file")
	if err != nil {
		return nil, err
	}
	key, err := t.file("key_file")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("cert_file and key_file: %w", err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// file returns the content of the file that a parameter names, or nil without the parameter.
func (t *Target) file(name string) (text []byte, err error) {
	path := t.url.Parameters[name]
	if path == "" {
		return nil, nil
	}
	text, _, err = regular.Read(path, largestFile+1)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(text) == 0:
		return nil, fmt.Errorf("%s: %q is empty", name, path)
	case len(text) > largestFile:
		return nil, fmt.Errorf("%s: %q has more than %d bytes", name, path, largestFile)
	}
	return text, nil
}

// CheckFiles reads the files that the line names and returns their faults. It does not
// connect.
func (t *Target) CheckFiles() error {
	_, err := t.Option()
	_, err2 := t.Secret()
	return errors.Join(err, err2)
}

// DialWithin returns a dial function like the client's own, which is cancelled when life ends.
func DialWithin(life context.Context) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		if config != nil {
			return (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", addr)
		}
		return d.DialContext(ctx, "tcp", addr)
	}
}

// Refusal returns err, of a connection made with option, with a hint about TLS and the server
// that has refused: a sentinel, with its address, or the master. The client reports neither,
// and each has users of its own. It blocks while it asks the sentinels, at most until ctx
// ends.
func (t *Target) Refusal(ctx context.Context, option rueidis.ClientOption, err error) error {
	if t.url.Kind != storeurl.Sentinel || !Answered(err) || Temporary(err) {
		return t.hint(err)
	}
	return refusal(ctx, option, err)
}

func refusal(ctx context.Context, o rueidis.ClientOption, err error) error {
	for _, addr := range o.InitAddress {
		client, refused := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{addr}, Username: o.Sentinel.Username, Password: o.Sentinel.Password, TLSConfig: o.Sentinel.TLSConfig,
			Dialer: o.Dialer, DialCtxFn: o.DialCtxFn, ConnWriteTimeout: o.ConnWriteTimeout, ForceSingleClient: true, DisableCache: true, DisableRetry: true,
		})
		if refused == nil {
			ctx, cancel := context.WithTimeout(ctx, patience)
			refused = client.Do(ctx, client.B().SentinelGetMasterAddrByName().Master(o.Sentinel.MasterSet).Build()).Error()
			cancel()
			client.Close()
		}
		switch {
		case refused == nil || rueidis.IsRedisNil(refused):
			return fmt.Errorf("the master, as the sentinels name it, refuses: %w; its user and password are those of the URL, %s and password_file", err, PasswordVariable)
		case Answered(refused):
			return fmt.Errorf("sentinel %s refuses: %w; the user and password there are sentinel_user and sentinel_password_file", addr, err)
		}
	}
	return err // the sentinels no longer answer
}
