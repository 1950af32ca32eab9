package seal_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/seal"
)

func keyring(t *testing.T, keys ...string) *seal.Keyring {
	t.Helper()
	k, err := seal.New(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// here is the place to which tests bind a text.
const here = "source.verifier:1:2"

func sealed(t *testing.T, k *seal.Keyring, plain string) string {
	t.Helper()
	return sealedAt(t, k, plain, here)
}

func sealedAt(t *testing.T, k *seal.Keyring, plain, place string) string {
	t.Helper()
	s, err := k.Seal(plain, place)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestASealedTextOpens(t *testing.T) {
	k := keyring(t, seal.NewKey())
	for _, plain := range []string{"", "s3cr3t", "naïve 日本", "\x00\xff", `{"secrets":["a","b"]}`, strings.Repeat("x", 1<<20)} {
		s := sealed(t, k, plain)
		if got, err := k.Open(s, here); got != plain || err != nil {
			t.Errorf("got %.40q, %v; want %.40q", got, err, plain)
		}
		if parts := strings.Split(s, ":"); len(parts) != 3 || parts[0] != "enc2" || parts[1] == "" {
			t.Errorf("got %.60s, want enc2:<key id>:<base64>", s)
		}
		if plain != "" && (strings.Contains(s, plain) || strings.Contains(s, base64.StdEncoding.EncodeToString([]byte(plain)))) {
			t.Errorf("%.60s shows %.40q", s, plain)
		}
	}
}

func TestTwoSealsDiffer(t *testing.T) {
	k := keyring(t, seal.NewKey())
	seen := map[string]bool{}
	for range 1000 {
		s := sealed(t, k, "s3cr3t")
		if seen[s] {
			t.Fatalf("%s was returned twice", s)
		}
		seen[s] = true
	}
}

func TestKeysAreRotated(t *testing.T) {
	older, newer := seal.NewKey(), seal.NewKey()
	before := sealed(t, keyring(t, older), "s3cr3t")
	both := keyring(t, newer, older)
	after := sealed(t, both, "s3cr3t")
	for _, c := range []struct {
		claim  string
		ring   *seal.Keyring
		sealed string
		want   error
	}{
		{"the old key opens", both, before, nil},
		{"the new key opens", both, after, nil},
		{"the new key seals", keyring(t, newer), after, nil},
		{"the old key is no longer needed for new seals", keyring(t, older), after, seal.ErrUnknownKey},
		{"a text of a removed key does not open", keyring(t, newer), before, seal.ErrUnknownKey},
		{"the order of keys does not matter to Open", keyring(t, older, newer), after, nil},
		{"a repeated key counts once", keyring(t, newer, newer), after, nil},
		{"space around a key is ignored", keyring(t, " "+newer+"\n"), after, nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			plain, err := c.ring.Open(c.sealed, here)
			if !errors.Is(err, c.want) || (plain == "s3cr3t") != (c.want == nil) {
				t.Errorf("got %q, %v; want error %v", plain, err, c.want)
			}
		})
	}
}

func TestEveryChangeIsDetected(t *testing.T) {
	k := keyring(t, seal.NewKey(), seal.NewKey())
	for _, place := range []string{here, ""} {
		wantChangesDetected(t, k, sealedAt(t, k, "s3cr3t", place))
	}
}

func wantChangesDetected(t *testing.T, k *seal.Keyring, s string) {
	t.Helper()
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=:"
	for i := range s {
		changes := []string{s[:i] + s[i+1:], s[:i]}
		for _, letter := range letters {
			changes = append(changes, s[:i]+string(letter)+s[i+1:], s[:i]+string(letter)+s[i:])
		}
		for _, changed := range changes {
			if changed == s {
				continue
			}
			plain, err := k.Open(changed, here)
			if plain != "" || !errors.Is(err, seal.ErrTampered) && !errors.Is(err, seal.ErrUnknownKey) {
				t.Errorf("%q: got %q, %v; want ErrTampered or ErrUnknownKey", changed, plain, err)
			}
		}
	}
}

func TestASealIsBoundToItsKey(t *testing.T) {
	one, two := seal.NewKey(), seal.NewKey()
	k := keyring(t, one, two)
	first, second := strings.Split(sealed(t, k, "x"), ":"), strings.Split(sealed(t, keyring(t, two), "y"), ":")
	if plain, err := k.Open("enc2:"+first[1]+":"+second[2], here); !errors.Is(err, seal.ErrTampered) {
		t.Errorf("got %q, %v; want %v", plain, err, seal.ErrTampered)
	}
}

func TestATextThatIsNotSealedDoesNotOpen(t *testing.T) {
	k := keyring(t, seal.NewKey())
	id := strings.Split(sealed(t, k, ""), ":")[1]
	for s, want := range map[string]error{
		"": seal.ErrTampered, "s3cr3t": seal.ErrTampered, "enc": seal.ErrTampered, "enc:": seal.ErrTampered, "enc:" + id: seal.ErrTampered,
		"enc:" + id + ":": seal.ErrTampered, "enc:" + id + ":AAAA": seal.ErrTampered, "enc:" + id + ":%": seal.ErrTampered,
		"enc::AAAA": seal.ErrUnknownKey, "enc:00000000:AAAA": seal.ErrUnknownKey,
		"enc2": seal.ErrTampered, "enc2:" + id + ":AAAA": seal.ErrTampered, "enc2::AAAA": seal.ErrUnknownKey, "enc3:" + id + ":AAAA": seal.ErrTampered,
	} {
		if plain, err := k.Open(s, here); plain != "" || !errors.Is(err, want) {
			t.Errorf("Open(%q): got %q, %v; want %v", s, plain, err, want)
		}
	}
}

func TestBadKeysAreRefusedAndNotShown(t *testing.T) {
	raw := strings.Repeat("topsecret-", 10)
	for claim, key := range map[string]string{
		"not base64":         raw[:44],
		"31 bytes":           base64.StdEncoding.EncodeToString([]byte(raw[:31])),
		"33 bytes":           base64.StdEncoding.EncodeToString([]byte(raw[:33])),
		"16 bytes":           base64.StdEncoding.EncodeToString([]byte(raw[:16])),
		"base64 of URLs":     base64.URLEncoding.EncodeToString([]byte(strings.Repeat("\xfb\xff", 16))),
		"base64 without pad": base64.RawStdEncoding.EncodeToString([]byte(raw[:32])),
		"raw bytes":          raw[:32],
	} {
		t.Run(claim, func(t *testing.T) {
			k, err := seal.New(seal.NewKey(), key)
			if err == nil {
				t.Fatalf("got %v, want an error", k)
			}
			if text := err.Error(); strings.Contains(text, key) || strings.Contains(text, key[:8]) || strings.Contains(text, raw[:8]) || !strings.Contains(text, "key 2") {
				t.Errorf("got %q, want it to name key 2 and quote no part of it", text)
			}
		})
	}
	for _, keys := range [][]string{nil, {""}} {
		if _, err := seal.New(keys...); err == nil {
			t.Errorf("New(%q): got no error", keys)
		}
	}
}

func TestNewKeysDiffer(t *testing.T) {
	one, two := seal.NewKey(), seal.NewKey()
	if raw, err := base64.StdEncoding.DecodeString(one); one == two || len(raw) != seal.KeyBytes || err != nil {
		t.Errorf("got %d bytes, %v, equal: %t; want %d bytes that differ", len(raw), err, one == two, seal.KeyBytes)
	}
}

func TestSealedTextsNameTheirKey(t *testing.T) {
	one, two := seal.NewKey(), seal.NewKey()
	ids := keyring(t, one, two, one).KeyIDs()
	if len(ids) != 2 || !strings.HasPrefix(sealed(t, keyring(t, one), "x"), "enc2:"+ids[0]+":") || !strings.HasPrefix(sealed(t, keyring(t, two), "x"), "enc2:"+ids[1]+":") {
		t.Errorf("got %v, want the id of each key, the newest first", ids)
	}
	for _, id := range ids {
		if strings.Contains(one+two, id) {
			t.Errorf("the id %s is a part of a key", id)
		}
	}
}

func TestDerivedKeys(t *testing.T) {
	first, second := seal.NewKey(), seal.NewKey()
	derive := func(purpose string, keys ...string) string {
		t.Helper()
		k, err := seal.New(keys...)
		if err != nil {
			t.Fatal(err)
		}
		return string(k.Derive(purpose))
	}
	one := derive("a", first, second)
	if derive("a", first) != one {
		t.Error("got a different key with a different older key, want only the newest key to matter")
	}
	if derive("b", first) == one || derive("a", second) == one || strings.Contains(one, first) {
		t.Error("got the same key for another purpose or from another key")
	}
}

func TestABoundTextOpensOnlyInItsPlace(t *testing.T) {
	k := keyring(t, seal.NewKey())
	bound := sealed(t, k, "s3cr3t")
	for _, place := range []string{"", "source.verifier:1:3", "source.verifier:2:2", "route.target_secrets:1:2", here + ":"} {
		if plain, err := k.Open(bound, place); plain != "" || !errors.Is(err, seal.ErrTampered) {
			t.Errorf("at %q: got %q, %v; want %v", place, plain, err, seal.ErrTampered)
		}
	}
	// A text of one format is not accepted as the other.
	if plain, err := k.Open(strings.Replace(bound, "enc2:", "enc:", 1), here); plain != "" || !errors.Is(err, seal.ErrTampered) {
		t.Errorf("a bound text with the unbound prefix: got %q, %v; want %v", plain, err, seal.ErrTampered)
	}
	unbound := sealedAt(t, k, "s3cr3t", "")
	if plain, err := k.Open(strings.Replace(unbound, "enc:", "enc2:", 1), ""); plain != "" || !errors.Is(err, seal.ErrTampered) {
		t.Errorf("an unbound text with the bound prefix: got %q, %v; want %v", plain, err, seal.ErrTampered)
	}
	if plain, err := k.Open(unbound, here); plain != "s3cr3t" || err != nil {
		t.Errorf("an unbound text: got %q, %v; want it to open in any place", plain, err)
	}
}
