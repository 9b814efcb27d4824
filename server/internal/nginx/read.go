// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// printedFile matches the line before each file in the output of nginx -T.
var printedFile = regexp.MustCompile(`(?m)^# configuration file (.+):\r?$`)

// printed returns the files in the output of nginx -T, the first of which includes the others,
// or the file itself.
func printed(f File) []File {
	heads := printedFile.FindAllStringSubmatchIndex(f.Text, -1)
	if len(heads) == 0 {
		return []File{f}
	}
	files := make([]File, len(heads))
	for i, h := range heads {
		end := len(f.Text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		files[i] = File{Name: f.Text[h[2]:h[3]], Text: strings.TrimPrefix(f.Text[h[1]:end], "\n"), Part: f.Part || i > 0}
	}
	return files
}

// read returns the content of http in all files that no other one includes.
func (c *converter) read() (*block, error) {
	included := map[int]bool{}
	trees := make([][]*directive, len(c.files))
	for i, f := range c.files {
		if f.Part {
			continue
		}
		var err error
		if trees[i], err = c.parse(i, included, 0); err != nil {
			return nil, err
		}
	}
	http := &block{}
	for i, tree := range trees {
		if included[i] {
			continue
		}
		if blocks := all(tree, "http"); len(blocks) > 0 {
			for _, d := range blocks {
				http.list = append(http.list, d.block...)
			}
		} else if len(all(tree, "stream")) == 0 { // a part of a configuration
			http.list = append(http.list, tree...)
		}
		for _, d := range all(tree, "stream") {
			walk(d.block, func(d *directive) {
				if d.name == "limit_conn" {
					c.note(d, "limit_conn in stream: limits connections; not kept")
				}
			})
		}
	}
	return http, nil
}

// parse reads a file and the files that it includes.
func (c *converter) parse(i int, included map[int]bool, depth int) ([]*directive, error) {
	f := c.files[i]
	if c.size += len(f.Text); c.size > 4*MaxBytes {
		return nil, &SyntaxError{f.Name, 1, "is included too often to be a configuration"}
	}
	tree, err := parse(f.Name, f.Text)
	if err != nil {
		return nil, err
	}
	return c.include(tree, i, included, depth)
}

// include replaces include directives by the content of the files.
func (c *converter) include(list []*directive, file int, included map[int]bool, depth int) (full []*directive, err error) {
	for _, d := range list {
		if c.count++; c.count > maxDirectives || depth > maxDepth {
			return nil, &SyntaxError{d.file, d.line, "too many directives, or files within files, to be a configuration"}
		}
		if d.block != nil {
			if d.block, err = c.include(d.block, file, included, depth); err != nil {
				return nil, err
			}
		}
		if d.name != "include" {
			full = append(full, d)
			continue
		}
		found := c.match(d.arg(0), file)
		for _, i := range found {
			included[i] = true
			tree, err := c.parse(i, included, depth+1)
			if err != nil {
				return nil, err
			}
			full = append(full, tree...)
		}
		base := path.Base(d.arg(0))
		if len(found) == 0 && base != "mime.types" && !strings.HasSuffix(base, "_params") {
			c.note(d, "include %s: is not among the files that were read; give it, too, or what nginx -T prints", d.arg(0))
		}
	}
	return full, nil
}

// match returns the files that an include names. Their folders may differ from nginx's: the
// longest matching end of a name counts, and a wildcard needs the folder.
func (c *converter) match(pattern string, from int) (found []int) {
	parts := strings.Split(strings.TrimPrefix(pattern, "./"), "/")
	nearest := 0
	for k := range parts {
		tail := parts[k:]
		if len(tail) == 1 && len(parts) > 1 && strings.ContainsAny(tail[0], "*?[") {
			break
		}
		for i, f := range c.files {
			names := strings.Split(f.Name, "/")
			if i == from || len(names) < len(tail) {
				continue
			}
			if ok, err := path.Match(strings.Join(tail, "/"), strings.Join(names[len(names)-len(tail):], "/")); ok && err == nil {
				switch above := len(names) - len(tail); { // the nearest folder counts
				case len(found) == 0 || above < nearest:
					found, nearest = []int{i}, above
				case above == nearest:
					found = append(found, i)
				}
			}
		}
		if len(found) > 0 {
			break
		}
	}
	slices.SortStableFunc(found, func(a, b int) int { return strings.Compare(c.files[a].Name, c.files[b].Name) })
	return found
}

// block is http, a server or a location with its directives.
type block struct {
	list   []*directive
	around *block // nil: http
}

// effective returns the directives of a name in effect in a block: those of the innermost
// enclosing block with any.
func (b *block) effective(name string) []*directive {
	for ; b != nil; b = b.around {
		if own := all(b.list, name); len(own) > 0 {
			return own
		}
	}
	return nil
}

// value returns the first argument of the directive in effect, or none without one.
func (b *block) value(name, none string) string {
	if own := b.effective(name); len(own) > 0 {
		return own[len(own)-1].arg(0)
	}
	return none
}

// understood are the directives that this package reads.
var understood = strings.Fields(`server location limit_req limit_req_zone limit_req_status limit_req_dry_run limit_conn
	limit_conn_zone limit_conn_status limit_conn_dry_run set_real_ip_from real_ip_header real_ip_recursive include
	return rewrite break if internal try_files error_page listen server_name upstream map geo limit_rate limit_rate_after
	limit_req_log_level limit_conn_log_level`)

// without are the directives that change neither which requests are limited nor their keys, by
// name, or by prefix if they end in an underscore. For set this holds because a zone whose key
// it sets is not kept.
var without = strings.Fields(`access_log add_header add_trailer aio alias autoindex_ charset charset_types chunked_transfer_encoding
	client_body_ client_header_ client_max_body_size connection_pool_size default_type directio error_log etag expires
	gzip gzip_ http2_ if_modified_since ignore_invalid_headers index keepalive_ large_client_header_buffers lingering_ log_format
	log_not_found log_subrequest max_ranges msie_ open_file_cache open_file_cache_ output_buffers port_in_redirect postpone_output
	recursive_error_pages request_pool_size reset_timedout_connection resolver resolver_timeout rewrite_log root send_lowat
	send_timeout sendfile sendfile_max_chunk server_name_in_redirect server_names_hash_ server_tokens set ssl_ sub_filter
	sub_filter_ tcp_nodelay tcp_nopush types types_hash_ absolute_redirect uninitialized_variable_warn variables_hash_
	map_hash_ proxy_ fastcgi_ uwsgi_ scgi_ grpc_ autoindex brotli brotli_ http2 variables_hash_bucket_size`)

// harmless reports whether a directive changes nothing that rules depend on.
func harmless(name string) bool {
	return slices.ContainsFunc(without, func(w string) bool {
		return name == w || strings.HasSuffix(w, "_") && strings.HasPrefix(name, w)
	})
}

// unknown notes the unknown directives of a block and of the locations in it.
func (c *converter) unknown(list []*directive) {
	for _, d := range list {
		switch {
		case d.name == "location":
			c.unknown(d.block)
		case d.name == "limit_rate", d.name == "limit_rate_after":
			c.note(d, "%s: limits the bandwidth of one response; not kept", d.name)
		case strings.HasSuffix(d.name, "_log_level"):
			c.note(d, "%s: has no counterpart; not kept", d.name)
		case !harmless(d.name) && !slices.Contains(understood, d.name):
			c.note(d, "%s: is not known; not kept, and nginx may limit or refuse other requests for it", d.name)
		}
	}
}
