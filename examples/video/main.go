// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command video serves films in segments, of which each viewer gets 100 MB a
// minute. What a response costs is known when it has been sent: a sliding
// counter of bytes is charged by as much as went out, and a viewer whose quota
// is spent gets no further segment until enough of the last minute has passed.
//
//	go -C examples run ./video
//	curl -i -o /dev/null -D - 'http://127.0.0.1:8080/segment?viewer=ann'
package main

import (
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

func main() {
	films, err := newFilms(memstore.New(memstore.Options{}))
	if err != nil {
		log.Fatal(err)
	}
	const addr = "127.0.0.1:8080"
	server := http.Server{Addr: addr, Handler: films, ReadHeaderTimeout: 5 * time.Second}
	fmt.Printf("try: curl -s -o /dev/null -D - 'http://%s/segment?viewer=ann'\n", addr)
	log.Fatal(server.ListenAndServe())
}

// newFilms returns the film server, limited. What the last segment before the denial took
// too much is owed: a rule whose cost is known afterwards has a debt by default.
func newFilms(store sluice.Store) (http.Handler, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /segment", serveSegment)
	limit, err := httplimit.Limit(store, "video", policy.Query("viewer"),
		sluice.MustParseLimit("100MB/min sliding-counter"))
	if err != nil {
		return nil, err
	}
	return limit.Wrap(mux), nil
}

// serveSegment sends 40 MB, which stand for some seconds of film.
func serveSegment(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "video/mp2t")
	chunk := make([]byte, 1_000_000)
	for range 40 {
		if _, err := w.Write(chunk); err != nil {
			return // the viewer has gone, and has paid for what was sent
		}
	}
}
