// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// ask asks a front in its protocol about the client 192.0.2.7, or the user ann where it knows no
// client, and returns whether it is allowed.
var ask = map[string]func(t *testing.T, address string) bool{
	"proxy": func(t *testing.T, address string) bool {
		return status(t, http.MethodGet, "http://"+address+"/?userId=ann", "", "X-Forwarded-For: 192.0.2.7") == http.StatusOK
	},
	"api": func(t *testing.T, address string) bool {
		body := send(t, http.MethodPost, "http://"+address+"/v1/take", `{"rule": "api", "client": "192.0.2.7", "query": {"userId": ["ann"]}}`,
			http.StatusOK, "Content-Type: application/json", "Authorization: Bearer "+secret)
		return strings.HasPrefix(body, `{"allowed":true`)
	},
	"check": func(t *testing.T, address string) bool {
		return status(t, http.MethodGet, "http://"+address+"/", "", "X-Forwarded-For: 192.0.2.7", "X-Forwarded-Method: GET", "X-Forwarded-Uri: /?userId=ann") == http.StatusOK
	},
	"ext_authz": checkEnvoy,
	"rls": func(t *testing.T, address string) bool {
		return status(t, http.MethodPost, "http://"+address+"/json", `{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "ann"}]}]}`, "Content-Type: application/json") == http.StatusOK
	},
	"resp": throttle,
	"tcp": func(t *testing.T, address string) bool {
		return status(t, http.MethodGet, "http://"+address+"/?userId=bob", "") == http.StatusOK
	},
}

// secret is that of the token of api and resp.
const (
	secret = "change-me-0123456789"
	tokens = `{"tokens": [{"name": "shop", "secret": "` + secret + `", "own_limits": true}]}`
)

// send sends a request on a connection of its own and returns the body of the answer, which must have the
// status, if that is not 0.
func send(t *testing.T, method, url, body string, want int, fields ...string) string {
	t.Helper()
	text, got := do(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, method, url, strings.NewReader(body), fields)
	if want != 0 && got != want {
		t.Errorf("%s answers %d, want %d: %s", url, got, want, text)
	}
	return text
}

func status(t *testing.T, method, url, body string, fields ...string) int {
	t.Helper()
	text, got := do(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, method, url, strings.NewReader(body), fields)
	if got != http.StatusOK && got != http.StatusTooManyRequests {
		t.Errorf("%s answers %d: %s", url, got, text)
	}
	return got
}

func do(t *testing.T, client *http.Client, method, url string, body io.Reader, fields []string) (text string, code int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return string(data), resp.StatusCode
}

// checkEnvoy calls envoy.service.auth.v3.Authorization/Check.
func checkEnvoy(t *testing.T, address string) bool {
	field := func(n protowire.Number, values ...[]byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), bytes.Join(values, nil))
	}
	text := func(n protowire.Number, s string) []byte { return field(n, []byte(s)) }
	port := protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), 4711)
	source := field(1, field(1, field(1, text(2, "192.0.2.7"), port)))                      // source { address { socket_address { address, port_value } } }
	request := field(4, field(2, text(2, "GET"), text(4, "/?userId=ann"), text(5, "shop"))) // request { http { method, path, host } }
	message := field(1, source, request)                                                    // attributes
	frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	answer, code := do(t, &http.Client{Transport: transport}, http.MethodPost, "http://"+address+"/envoy.service.auth.v3.Authorization/Check",
		bytes.NewReader(frame), []string{"Content-Type: application/grpc", "Te: trailers"})
	if code != http.StatusOK || len(answer) < 5 {
		t.Fatalf("ext_authz answers %d: %q", code, answer)
	}
	// status { code } comes first: google.rpc.Code 0 is left out.
	number, kind, n := protowire.ConsumeTag([]byte(answer[5:]))
	if number != 1 || kind != protowire.BytesType {
		t.Fatalf("ext_authz answers %q", answer)
	}
	of, _ := protowire.ConsumeBytes([]byte(answer[5+n:]))
	return !bytes.HasPrefix(of, []byte{8}) // 8 is also the tag of code
}

// throttle sends CL.THROTTLE, with AUTH before it.
func throttle(t *testing.T, address string) bool {
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // all has been read
	var all strings.Builder
	for _, command := range []string{"AUTH " + secret, "CL.THROTTLE ann 0 1 3600", "QUIT"} {
		words := strings.Fields(command)
		fmt.Fprintf(&all, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(&all, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	if _, err := io.WriteString(conn, all.String()); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	_, decision, ok := strings.Cut(string(answer), "*5\r\n:")
	if !ok {
		t.Fatalf("resp answers %q", answer)
	}
	return decision[0] == '0'
}
