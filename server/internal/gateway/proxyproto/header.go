// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package proxyproto

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/netip"
	"strconv"
	"strings"
)

// header holds the addresses in a header. Zero addresses mean the connection's own.
type header struct{ source, target netip.AddrPort }

var errNoHeader = errors.New("the connection does not begin with a PROXY protocol header; let the proxy send one, or take it off the list of those that do")

// errNothing is the error of a connection that ends, or times out, before its first byte.
var errNothing = errors.New("no header came")

// maxLine is the longest header of version 1, with its end of line.
const maxLine = 107

var signature = []byte("\r\n\r\n\x00\r\nQUIT\n")

// readHeader reads a header. Further bytes stay in r's buffer.
func readHeader(r *bufio.Reader) (header, error) {
	first, err := r.Peek(1)
	if err != nil {
		return header{}, fmt.Errorf("%w: %w", errNothing, err)
	}
	switch first[0] {
	case 'P':
		return readLine(r)
	case signature[0]:
		return readBinary(r)
	}
	return header{}, errNoHeader
}

// readLine reads version 1: "PROXY TCP4 192.0.2.1 192.0.2.2 4711 443\r\n". It checks each byte
// as it arrives, so that other data is refused at the first difference.
func readLine(r *bufio.Reader) (header, error) {
	const prefix = "PROXY "
	line := make([]byte, 0, maxLine)
	for len(line) == 0 || line[len(line)-1] != '\n' {
		if len(line) == maxLine {
			return header{}, fmt.Errorf("no end of line within %d bytes", maxLine)
		}
		c, err := r.ReadByte()
		if err != nil {
			return header{}, fmt.Errorf("it ends after %d bytes: %w", len(line), err)
		}
		if len(line) < len(prefix) && c != prefix[len(line)] {
			return header{}, errNoHeader
		}
		line = append(line, c)
	}
	text, ok := strings.CutSuffix(string(line), "\r\n")
	if !ok {
		return header{}, errors.New("the line does not end in CR LF")
	}
	words := strings.Split(text, " ")
	if words[1] == "UNKNOWN" {
		return header{}, nil // the protocol says to ignore the rest
	}
	if len(words) != 6 || words[1] != "TCP4" && words[1] != "TCP6" {
		return header{}, fmt.Errorf("%q is not of the form PROXY TCP4|TCP6 SOURCE DESTINATION PORT PORT", text)
	}
	var h header
	var err error
	if h.source, err = parseAddr(words[1] == "TCP4", words[2], words[4]); err != nil {
		return header{}, err
	}
	if h.target, err = parseAddr(words[1] == "TCP4", words[3], words[5]); err != nil {
		return header{}, err
	}
	return h, nil
}

func parseAddr(four bool, text, port string) (netip.AddrPort, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" || addr.Is4() != four {
		return netip.AddrPort{}, fmt.Errorf("%q is not an address of its family", text)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || strconv.FormatUint(n, 10) != port {
		return netip.AddrPort{}, fmt.Errorf("%q is not a port", port)
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), nil
}

// Constants of version 2: commands, families and the one extension in use.
const (
	commandLocal = 0x20
	commandProxy = 0x21

	familyNone = 0x00
	familyTCP4 = 0x11
	familyUDP4 = 0x12
	familyTCP6 = 0x21
	familyUDP6 = 0x22
	familyUnix = 0x31
	familyUgrm = 0x32

	typeCRC32C = 0x03
)

// readBinary reads version 2.
func readBinary(r *bufio.Reader) (header, error) {
	var fixed [16]byte
	for i := range fixed {
		c, err := r.ReadByte()
		if err != nil {
			return header{}, fmt.Errorf("it ends after %d bytes: %w", i, err)
		}
		if i < len(signature) && c != signature[i] {
			return header{}, errNoHeader
		}
		fixed[i] = c
	}
	command, family := fixed[12], fixed[13]
	if command != commandLocal && command != commandProxy {
		return header{}, fmt.Errorf("version and command are %#02x; known are 0x20 and 0x21", command)
	}
	size, ok := addressBytes(family)
	if !ok {
		return header{}, fmt.Errorf("address family and protocol are %#02x, which is not defined", family)
	}
	rest := make([]byte, binary.BigEndian.Uint16(fixed[14:]))
	if n, err := io.ReadFull(r, rest); err != nil {
		return header{}, fmt.Errorf("it ends after %d of %d bytes: %w", len(fixed)+n, len(fixed)+len(rest), err)
	}
	if command == commandLocal {
		return header{}, nil // the proxy speaks for itself, and the rest is skipped
	}
	if len(rest) < size {
		return header{}, fmt.Errorf("it has %d bytes of addresses; its family has %d", len(rest), size)
	}
	if err := checkExtensions(fixed[:], rest, size); err != nil {
		return header{}, err
	}
	switch family {
	case familyTCP4:
		return addresses(rest, 4), nil
	case familyTCP6:
		return addresses(rest, 16), nil
	}
	return header{}, nil // not the addresses of a TCP connection
}

// addressBytes returns the size of a family's addresses.
func addressBytes(family byte) (n int, defined bool) {
	switch family {
	case familyNone:
		return 0, true
	case familyTCP4, familyUDP4:
		return 2*4 + 2*2, true
	case familyTCP6, familyUDP6:
		return 2*16 + 2*2, true
	case familyUnix, familyUgrm:
		return 2 * 108, true
	}
	return 0, false
}

func addresses(b []byte, n int) header {
	source, _ := netip.AddrFromSlice(b[:n]) // of 4 or 16 bytes
	target, _ := netip.AddrFromSlice(b[n : 2*n])
	ports := b[2*n:]
	return header{
		source: netip.AddrPortFrom(source.Unmap(), binary.BigEndian.Uint16(ports)),
		target: netip.AddrPortFrom(target.Unmap(), binary.BigEndian.Uint16(ports[2:])),
	}
}

// checkExtensions checks the extensions after the addresses and compares the checksum of the
// whole header, if there is one.
func checkExtensions(fixed, rest []byte, at int) error {
	for at < len(rest) {
		if len(rest)-at < 3 {
			return errors.New("an extension is cut off")
		}
		kind, size := rest[at], int(binary.BigEndian.Uint16(rest[at+1:]))
		value := at + 3
		if size > len(rest)-value {
			return fmt.Errorf("extension %#02x has %d bytes; it says %d", kind, len(rest)-value, size)
		}
		if kind == typeCRC32C {
			if size != crc32.Size {
				return fmt.Errorf("the checksum has %d bytes; it needs %d", size, crc32.Size)
			}
			whole := bytes.Join([][]byte{fixed, rest}, nil)
			clear(whole[len(fixed)+value : len(fixed)+value+size])
			if crc32.Checksum(whole, crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(rest[value:]) {
				return errors.New("the checksum is wrong")
			}
		}
		at = value + size
	}
	return nil
}
