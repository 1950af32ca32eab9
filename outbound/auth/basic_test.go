package auth_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func TestBasicCredentials(t *testing.T) {
	receiver := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != "jürgen" || password != hush+":é" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, "got "+r.Header.Get("Authorization"))
	})
	all := clients(private(), time.Now)
	right := clientFor(t, all, eventhook.Auth{Type: eventhook.AuthBasic, Username: "jürgen", Password: hush + ":é"})
	if status, answer, err := post(t, right, receiver.URL); status != 200 || answer != "got Basic "+strings.Repeat("*", len(answer)-len("got Basic ")) || err != nil {
		t.Errorf("got %d, %q, %v; want 200 and masked credentials", status, answer, err)
	}
	wrong := clientFor(t, all, eventhook.Auth{Type: eventhook.AuthBasic, Username: "jürgen", Password: "other"})
	if status, _, err := post(t, wrong, receiver.URL); status != http.StatusUnauthorized || err != nil {
		t.Errorf("a wrong password: got %d, %v; want 401", status, err)
	}
}

// The credentials begin before the end of the wanted part of the answer and end behind it.
func TestCredentialsAtTheEndOfAnExcerptAreMasked(t *testing.T) {
	receiver := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("-", 95)+r.Header.Get("Authorization")+strings.Repeat("-", 1000))
	})
	c := clientFor(t, clients(private(), time.Now), eventhook.Auth{Type: eventhook.AuthBasic, Username: "u", Password: hush})
	if _, answer, _ := post(t, c, receiver.URL); answer != strings.Repeat("-", 95)+"Basic" {
		t.Errorf("got %q", answer)
	}
	other := clientFor(t, clients(private(), time.Now), eventhook.Auth{Type: eventhook.AuthBasic, Username: "u", Password: hush})
	inside := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("-", 90)+r.Header.Get("Authorization")+strings.Repeat("-", 1000))
	})
	if _, answer, _ := post(t, other, inside.URL); answer != strings.Repeat("-", 90)+"Basic ****" {
		t.Errorf("got %q", answer)
	}
}

func TestAnUnknownTypeIsRefused(t *testing.T) {
	if _, err := clients(private(), time.Now).Client(eventhook.Auth{Type: "kerberos"}); err == nil {
		t.Error("got no error")
	}
}
