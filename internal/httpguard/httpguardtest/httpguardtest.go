package httpguardtest

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// Send sends bytes on a new connection and returns the answers that the server
// sends until it closes the connection, each as its status and its body.
func Send(t *testing.T, address, request string) (answers []string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return send(t, conn, request)
}

// SendTLS is Send over TLS with HTTP/1.1. It does not verify the server's certificate.
func SendTLS(t *testing.T, address, request string) (answers []string) {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}) //nolint:gosec // tests have certificates of their own
	if err != nil {
		t.Fatal(err)
	}
	return send(t, conn, request)
}

func send(t *testing.T, conn net.Conn, request string) (answers []string) {
	t.Helper()
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	for {
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			return answers
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		answers = append(answers, fmt.Sprintf("%d %s", answer.StatusCode, strings.TrimSpace(string(body))))
	}
}
