package portallink_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/portallink"
)

var (
	now  = time.Date(2026, time.March, 10, 9, 30, 0, 500, time.UTC)
	key  = []byte("0123456789abcdef0123456789abcdef")
	acme = eventhook.NewID[eventhook.Tenant](now)
)

func TestALinkOpensUntilItExpires(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		l := portallink.New(acme, "customer-42", now, time.Minute)
		l.IsReadOnly = readOnly
		if l.MaxEndpoints != 20 {
			t.Errorf("got at most %d endpoints, want 20", l.MaxEndpoints)
		}
		l.MaxEndpoints = eventhook.MaxEndpointsLimit
		token := l.Sign(key)
		for _, at := range []time.Time{now, now.Add(time.Minute - time.Nanosecond)} {
			if got, err := portallink.Open(key, token, at); err != nil || got != l {
				t.Errorf("at %s: got %+v, %v, want %+v", at, got, err, l)
			}
		}
		if _, err := portallink.Open(key, token, l.ExpiresAt); !errors.Is(err, portallink.ErrExpired) {
			t.Errorf("at its end: got %v, want ErrExpired", err)
		}
	}
}

func TestTwoLinksDiffer(t *testing.T) {
	token := func() string { return portallink.New(acme, "a", now, time.Minute).Sign(key) }
	if first, second := token(), token(); first == second {
		t.Error("two links of one moment have one token")
	}
}

func TestAForgedLinkIsRefused(t *testing.T) {
	token := portallink.New(acme, "customer-4", now, time.Hour).Sign(key)
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		forged := append([]byte(nil), raw...)
		forged[i] ^= 1
		if l, err := portallink.Open(key, base64.RawURLEncoding.EncodeToString(forged), now); !errors.Is(err, portallink.ErrInvalid) {
			t.Errorf("byte %d changed: got %+v, %v, want ErrInvalid", i, l, err)
		}
	}
	for claim, text := range map[string]string{"nothing": "", "cut": token[:len(token)-4], "longer": token + "AAAA", "other letters": token[:9] + "+/" + token[11:],
		"too long": strings.Repeat("A", 4096)} {
		if _, err := portallink.Open(key, text, now); !errors.Is(err, portallink.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", claim, err)
		}
	}
	for _, other := range [][]byte{nil, {}, []byte("another key")} {
		if _, err := portallink.Open(other, token, now); !errors.Is(err, portallink.ErrInvalid) {
			t.Errorf("with the key %q: got %v, want ErrInvalid", other, err)
		}
	}
}

func TestALinkForAPatternIsRefused(t *testing.T) {
	for _, scope := range []string{"", "*", "customer-4/*", "a/"} {
		if _, err := portallink.Open(key, portallink.New(acme, scope, now, time.Hour).Sign(key), now); !errors.Is(err, portallink.ErrInvalid) {
			t.Errorf("scope %q: got %v, want ErrInvalid", scope, err)
		}
	}
	for _, most := range []int{0, eventhook.MaxEndpointsLimit + 1} {
		l := portallink.New(acme, "customer-4", now, time.Hour)
		l.MaxEndpoints = most
		if _, err := portallink.Open(key, l.Sign(key), now); !errors.Is(err, portallink.ErrInvalid) {
			t.Errorf("at most %d endpoints: got %v, want ErrInvalid", most, err)
		}
	}
	longest := portallink.New(acme, strings.Repeat("x", eventhook.MaxScopePattern), now, time.Hour)
	if got, err := portallink.Open(key, longest.Sign(key), now); err != nil || got != longest {
		t.Errorf("the longest scope: got %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(portallink.New(acme, "customer-42", now, time.Hour).Sign(key))
	f.Add("")
	f.Fuzz(func(t *testing.T, token string) {
		l, err := portallink.Open(key, token, now)
		switch {
		case err == nil && l.Sign(key) != token:
			t.Errorf("%q: its link has the token %q", token, l.Sign(key))
		case err != nil && !errors.Is(err, portallink.ErrInvalid) && !errors.Is(err, portallink.ErrExpired):
			t.Errorf("%q: got %v", token, err)
		}
	})
}
