package pg

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook/internal/pgtest"
)

// pooler assigns sessions of PostgreSQL to its clients for a transaction or for a
// connection.
type pooler struct {
	sessions chan *pgconn.HijackedConn
	perTx    bool
}

// startPooler returns the URL of a pooler for the database at dsn.
func startPooler(t *testing.T, dsn string, sessions int, perTx bool) string {
	t.Helper()
	p := &pooler{sessions: make(chan *pgconn.HijackedConn, sessions), perTx: perTx}
	for range sessions {
		conn, err := pgconn.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		session, err := conn.Hijack()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Conn.Close() })
		p.sessions <- session
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return fmt.Sprintf("postgres://any@%s/any?sslmode=disable", listener.Addr())
}

// serve serves one client. It implements the part of the protocol for simple queries.
func (p *pooler) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	var head [4]byte
	if _, err := io.ReadFull(client, head[:]); err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, client, int64(binary.BigEndian.Uint32(head[:]))-4)
	_, _ = client.Write([]byte("R\x00\x00\x00\x08\x00\x00\x00\x00" + // authenticated
		"S\x00\x00\x00\x19client_encoding\x00UTF8\x00" + "S\x00\x00\x00\x23standard_conforming_strings\x00on\x00" +
		"K\x00\x00\x00\x0c\x00\x00\x00\x01\x00\x00\x00\x01" + "Z\x00\x00\x00\x05I"))
	var session *pgconn.HijackedConn
	defer func() {
		if session != nil {
			p.sessions <- session
		}
	}()
	for {
		query, err := readMessage(client)
		if err != nil || query[0] == 'X' {
			return
		}
		if session == nil {
			session = <-p.sessions
		}
		if _, err := session.Conn.Write(query); err != nil {
			return
		}
		for answer := []byte{0}; answer[0] != 'Z'; {
			if answer, err = readMessage(session.Conn); err != nil {
				return
			}
			if p.perTx && answer[0] == 'Z' && answer[5] == 'I' {
				p.sessions <- session
				session = nil
			}
			_, _ = client.Write(answer)
			if session == nil {
				break
			}
		}
	}
}

func readMessage(from io.Reader) ([]byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	message := append(head, make([]byte, binary.BigEndian.Uint32(head[1:])-4)...)
	_, err := io.ReadFull(from, message[5:])
	return message, err
}

func TestIsPoolerFindsPoolersInTransactionMode(t *testing.T) {
	dsn := pgtest.New(t)
	for _, c := range []struct {
		claim    string
		url      string
		isPooler bool
	}{
		{"PostgreSQL itself", dsn, false},
		{"a pooler that lends a session for a transaction", startPooler(t, dsn, 1, true), true},
		{"a pooler that lends sessions round robin", startPooler(t, dsn, 3, true), true},
		{"a pooler that lends a session to a client", startPooler(t, dsn, 2, false), false},
		{"an address without a server", "postgres://127.0.0.1:1/none?sslmode=disable&connect_timeout=1", false},
	} {
		if got := IsPooler(t.Context(), c.url); got != c.isPooler {
			t.Errorf("%s: got %t, want %t", c.claim, got, c.isPooler)
		}
	}
}
