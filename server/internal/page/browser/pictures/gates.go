// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Where the programs listen. They are fixed so that pictures differ by what they show.
const (
	idleURL, idlePage     = "127.0.0.1:18084", "127.0.0.1:18085"
	busyURL, busyPage     = "127.0.0.1:18080", "127.0.0.1:18081"
	brokenURL, brokenPage = "127.0.0.1:18082", "127.0.0.1:18083"
	redisPort             = "16399"
)

// files are the configurations.
var files = map[string]string{
	"idle": `listen: ` + idleURL + `
admin: {address: ` + idlePage + `}
rules:
  - {name: per-client, by: ip, limits: 100/min}
`,
	"busy": `listen: ` + busyURL + `
admin: {address: ` + busyPage + `, token_file: token}
rules:
  - {name: login, match: {path: /login}, by: ip, limits: 30/min}
  - {name: api-per-user, match: {path: /api/}, by: header.X-User, limits: [5/s burst 10, 1000/hour sliding-log], candidates: {tighter: 2/s burst 4}}
  - {name: search, match: {path: /search}, by: header.X-User, limits: 3/min sliding-counter, candidates: {wider: 12/min sliding-counter}}
  - {name: export, match: {path: /export}, by: ip, limits: soft 10/min grace 2000/hour}
  - {name: reports, match: {path: /reports}, by: header.X-User, limits: 60/min, mode: shadow}
  - {name: all, limits: 400/s burst 800}
`,
	"broken": `listen: {address: ` + brokenURL + `, tls: {cert: cert.pem, key: key.pem}}
admin: {address: ` + brokenPage + `}
store: {redis: {url: "redis://127.0.0.1:` + redisPort + `"}}
rules:
  - {name: per-client, by: ip, failure: local, limits: 100/min}
`,
}

// startAll starts the gateways, and the Redis of one.
func startAll(ctx context.Context, program, dir string) (map[string]*process, error) {
	all := map[string]*process{}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "token"), []byte(strings.Repeat("0123456789abcdef", 2)), 0o600), certificate(dir)); err != nil {
		return all, err
	}
	var err error
	if all["redis"], err = run(ctx, dir, "redis-server", "--port", redisPort, "--save", "", "--logfile", "redis.log"); err != nil {
		return all, err
	}
	for name, page := range map[string]string{"idle": idlePage, "busy": busyPage, "broken": brokenPage} {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(files[name]), 0o600); err != nil {
			return all, err
		}
		if all[name], err = run(ctx, dir, program, "serve", "--config", name+".yaml", "--log-level", "error"); err != nil {
			return all, err
		}
		all[name].page = "http://" + page + "/"
	}
	for _, p := range []string{idlePage, busyPage, brokenPage} {
		if err := ready(ctx, p); err != nil {
			return all, err
		}
	}
	return all, nil
}

// ready waits until an address is listened at.
func ready(ctx context.Context, address string) error {
	for range 200 {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("nobody listens at %s", address)
}

// certificate writes a certificate of a host that expires in three days.
func certificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(72 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(crand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// ask sends the traffic: sixty users in waves and one that wants more; after a while
// the broken gateway loses its store, and its file gets a fault.
func ask(ctx context.Context, gates map[string]*process, dir string) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // its own certificate
	}}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	broken := false
	for i := range int(traffic / (100 * time.Millisecond)) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		wave := 4 + 3*math.Sin(float64(i)/300)
		for range rand.IntN(int(wave) + 1) { //nolint:gosec // no secret
			get(ctx, client, "http://"+busyURL, draw(i))
		}
		if i%4 == 0 {
			get(ctx, client, "https://"+brokenURL, request{"/", "ada"})
		}
		if !broken && time.Duration(i)*100*time.Millisecond > traffic/2 {
			broken = true
			fault := strings.Replace(files["broken"], "100/min", "100/fortnight", 1)
			if err := errors.Join(gates["redis"].stop(), os.WriteFile(filepath.Join(dir, "broken.yaml"), []byte(fault), 0o600)); err != nil {
				return err
			}
		}
	}
	return nil
}

// request is a path and its caller.
type request struct{ path, user string }

// draw returns a request of the mix.
func draw(i int) request {
	user := fmt.Sprintf("user-%02d", rand.IntN(60)) //nolint:gosec // no secret
	switch n := rand.IntN(100); {                   //nolint:gosec // no secret
	case n < 2:
		return request{"/login", user}
	case n < 14:
		return request{"/search", user}
	case n < 16:
		return request{"/export", user}
	case n < 30 && i > int(traffic/(250*time.Millisecond)):
		return request{"/api/orders", "scraper"}
	default:
		return request{"/api/orders", user}
	}
}

// get sends a request; the pictures show its outcome.
func get(ctx context.Context, client *http.Client, url string, r request) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+r.path, nil)
	if err != nil {
		return
	}
	req.Header.Set("X-User", r.user)
	if resp, err := client.Do(req); err == nil {
		_ = resp.Body.Close()
	}
}
