// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rueidisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/redisurl"
)

const (
	// patience bounds the making of a connection and its silence. A server that hangs for
	// longer is dialled again, so that its return is noticed without waiting for
	// retransmissions of the network.
	patience = time.Second
	// refresh is the interval at which sentinels or a Cluster are asked for their nodes, in
	// addition to when an error suggests a change. The client adds a wait of up to a second
	// for a Cluster.
	refresh = 250 * time.Millisecond

	largestFile = 1 << 20 // bytes
)

// single reports whether a URL names one server, at one address.
func single(u *redisurl.URL) bool { return !u.Cluster && u.Master == "" }

// Secret returns the content of the file that the parameter secret_file of a URL names, for
// Options.Secret, or nil if the URL names none.
func Secret(u *redisurl.URL) ([]byte, error) {
	secret, err := readFile(u, "secret_file")
	if err != nil {
		return nil, err
	}
	if err := (redisstore.Options{Secret: secret}).Validate(); err != nil {
		return nil, fmt.Errorf("secret_file: %w", err)
	}
	return secret, nil
}

// ClientOption returns the options of a rueidis client for the servers of a URL. It reads the
// files that the URL names, and does not connect. The password's file is read again for every
// new connection, so that a changed password needs no restart, except with sentinels, as
// rueidis takes their passwords from the same function. A file that cannot be read, is empty
// or holds no certificate is an error.
func ClientOption(u *redisurl.URL) (rueidis.ClientOption, error) {
	o := rueidis.ClientOption{
		InitAddress: u.Addresses, SelectDB: u.Database, Username: u.User, Password: u.Password, ClientName: "sluice",
		Dialer: net.Dialer{Timeout: patience, KeepAlive: patience}, ConnWriteTimeout: patience,
		ForceSingleClient: single(u), DisableCache: true, DisableRetry: true,
	}
	secrets := []struct {
		name string
		into *string
	}{{"password_file", &o.Password}, {"sentinel_password_file", &o.Sentinel.Password}}
	for _, f := range secrets {
		text, err := readFile(u, f.name)
		if err != nil {
			return o, err
		}
		if len(text) > 0 {
			*f.into = strings.TrimRight(string(text), "\r\n")
		}
	}
	if u.Parameters["password_file"] != "" && u.Master == "" { // sentinels would get it, too
		o.AuthCredentialsFn = passwords(u, o.Password)
	}
	if u.TLS {
		var err error
		if o.TLSConfig, err = tlsConfig(u); err != nil {
			return o, err
		}
	}
	switch {
	case u.Master != "":
		o.Sentinel.MasterSet, o.Sentinel.Username = u.Master, u.Parameters["sentinel_user"]
		o.Sentinel.Dialer, o.Sentinel.TLSConfig, o.Sentinel.TopologyRefreshInterval = o.Dialer, o.TLSConfig, refresh
	case u.Cluster:
		o.ClusterOption.ShardsRefreshInterval = refresh
	}
	return o, nil
}

// passwords returns a function that reads the password again for each new connection. If the
// file cannot be read, it returns the last password.
func passwords(u *redisurl.URL, last string) func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	var mu sync.Mutex
	return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		mu.Lock()
		defer mu.Unlock()
		if text, err := readFile(u, "password_file"); err == nil {
			last = strings.TrimRight(string(text), "\r\n")
		}
		return rueidis.AuthCredentials{Username: u.User, Password: last}, nil
	}
}

func tlsConfig(u *redisurl.URL) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	text, err := readFile(u, "ca_file")
	if err != nil {
		return nil, err
	}
	if text != nil {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, errors.New("ca_file: holds no certificate in PEM")
		}
	}
	if u.Parameters["cert_file"] == "" {
		return c, nil
	}
	cert, err := readFile(u, "cert_file")
	if err != nil {
		return nil, err
	}
	key, err := readFile(u, "key_file")
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

// readFile returns the content of the file that a parameter names, or nil without the parameter.
func readFile(u *redisurl.URL, name string) (text []byte, err error) {
	path := u.Parameters[name]
	if path == "" {
		return nil, nil
	}
	text, err = readRegular(path)
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

// readRegular returns the content of a regular file, up to one byte more than largestFile. It
// does not block on a pipe.
func readRegular(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	switch m := info.Mode(); {
	case m.IsDir():
		return nil, fmt.Errorf("%s is a directory; use the path of a regular file", path)
	case m&fs.ModeNamedPipe != 0:
		return nil, fmt.Errorf("%s is a pipe; use the path of a regular file", path)
	case !m.IsRegular():
		return nil, fmt.Errorf("%s is no regular file; use the path of one", path)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the caller chooses the file
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, largestFile+1))
	return text, errors.Join(err, f.Close())
}

// Connect returns a client that lives until life ends: after that it dials no connection. So
// life is not the context of a timeout for connecting. The client is for the servers of a URL,
// with the options of [ClientOption], which the caller may have changed. The caller must close
// it. Connect blocks until a connection is made, about a second if a server hangs. An error
// names the change of the URL that may help, and the server that has refused the user: a
// sentinel, with its address, or the master, as each has users of its own.
func Connect(life context.Context, u *redisurl.URL, option rueidis.ClientOption) (rueidis.Client, error) {
	option.DialCtxFn = dialWithin(life)
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, refusal(life, u, option, err)
	}
	return client, nil
}

// dialWithin returns a dial function like the client's own, which is cancelled when life ends.
func dialWithin(life context.Context) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
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

// refusal returns err, the error of a connection with option, with a hint about TLS and the
// name of the server that has refused, which the client does not report. It blocks while it
// asks the sentinels, at most until ctx ends.
func refusal(ctx context.Context, u *redisurl.URL, option rueidis.ClientOption, err error) error {
	if u.Master == "" || !Answered(err) || Temporary(err) {
		return hint(u, err)
	}
	option.DialCtxFn = dialWithin(ctx)
	return askSentinels(ctx, option, err)
}

// askSentinels returns err with the sentinel that refuses its user, or the master if none
// does.
func askSentinels(ctx context.Context, o rueidis.ClientOption, err error) error {
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
			return fmt.Errorf("the master, as the sentinels name it, refuses: %w; its user and password are those of the URL, %s and password_file", err, redisurl.PasswordVariable)
		case Answered(refused):
			return fmt.Errorf("sentinel %s refuses: %w; the user and password there are sentinel_user and sentinel_password_file", addr, err)
		}
	}
	return err // the sentinels no longer answer
}
