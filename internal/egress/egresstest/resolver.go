// Package egresstest replaces the DNS in tests.
package egresstest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Resolver returns a resolver that answers each question for an IPv4 address with the next
// address. After the last address it repeats the last one. Other questions have no answer.
func Resolver(t *testing.T, addresses ...string) *net.Resolver {
	t.Helper()
	var next atomic.Int64
	address := func() netip.Addr {
		return netip.MustParseAddr(addresses[min(int(next.Add(1)), len(addresses))-1])
	}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer func() { _ = far.Close() }()
			answer(t, far, address)
		}()
		return near, nil
	}}
}

// answer answers questions until the connection is closed. A message follows its length in two
// bytes (RFC 1035, section 4.2.2).
func answer(t *testing.T, conn net.Conn, address func() netip.Addr) {
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		question := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, question); err != nil {
			return
		}
		reply, err := reply(question, address)
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := conn.Write(append([]byte{byte(len(reply) >> 8), byte(len(reply))}, reply...)); err != nil {
			return
		}
	}
}

func reply(question []byte, address func() netip.Addr) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	m.Response, m.Additionals = true, nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
			Body:   &dnsmessage.AResource{A: address().As4()},
		}}
	}
	return m.Pack()
}
