package verify_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/verify"
)

// The attack: 1600 times \pL{0,999}! used 2.4 GB when six sources were loaded.
func TestReservedIsBounded(t *testing.T) {
	for claim, text := range map[string]string{
		"one large repetition": `\pL{0,999}!`,
		"all of the attack":    strings.Repeat(`\pL{0,999}!`, 1600),
		"many classes":         strings.Repeat(`\pL`, 300),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		faults := verify.Config{Type: "hmac", Header: "X-Signature", Secrets: []string{"secret"}, Reserved: text}.Validate()
		runtime.ReadMemStats(&after)
		if len(faults) != 1 || faults[0].Location != "reserved" {
			t.Errorf("%s: got %v, want one fault at reserved", claim, faults)
		}
		const maxBytes = 16 << 20
		if got := after.TotalAlloc - before.TotalAlloc; got > maxBytes {
			t.Errorf("%s: got %d bytes allocated, want at most %d", claim, got, maxBytes)
		}
	}
}

// A message is refused if matching takes too many steps.
func TestMatchingReservedIsBounded(t *testing.T) {
	for claim, c := range map[string]struct{ reserved, body, want string }{
		"a message that is reserved": {`^a{3}$`, "aaa", "handshake"},
		"one that is none":           {`^a{3}$`, strings.Repeat("a", 1<<20), ""},
		"a costly one":               {`\pL{0,200}!`, strings.Repeat("a", 1<<20), "too many steps"},
	} {
		t.Run(claim, func(t *testing.T) {
			v, err := verify.New(verify.Config{Type: "hmac", Header: "X-Signature", Secrets: []string{"secret"}, Reserved: c.reserved}, nil)
			if err != nil {
				t.Fatal(err)
			}
			mac := hmac.New(sha256.New, []byte("secret"))
			mac.Write([]byte(c.body))
			err = v.Verify(t.Context(), &verify.Request{Body: []byte(c.body), Header: http.Header{"X-Signature": {hex.EncodeToString(mac.Sum(nil))}}})
			if got := err == nil; got != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
