package verify

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// vector is a claim about one request. Its signature was computed by other
// code than ours.
type vector struct {
	Claim  string
	Config Config
	Header http.Header
	Body   string
	At     int64
	Reason Reason // empty: verified
}

func (v vector) request() *Request {
	return &Request{Method: http.MethodPost, Header: v.Header, Body: []byte(v.Body), At: time.Unix(v.At, 0)}
}

// TestVectors wants a folder for every scheme, and in it requests that pass
// and, but for none, requests that do not.
func TestVectors(t *testing.T) {
	for scheme := range schemes {
		t.Run(scheme, func(t *testing.T) {
			passed, refused := 0, 0
			for _, v := range loadVectors(t, filepath.Join("testdata", scheme)) {
				if v.Config.Type != scheme {
					t.Errorf("%s: type %s in the folder of %s", v.Claim, v.Config.Type, scheme)
				}
				checkVector(t, v)
				if v.Reason == "" {
					passed++
				} else {
					refused++
				}
			}
			if passed == 0 || (refused == 0 && scheme != "none") {
				t.Errorf("%d valid and %d invalid vectors, want some of both", passed, refused)
			}
		})
	}
}

func loadVectors(t testing.TB, folder string) []vector {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors in %s (%v)", folder, err)
	}
	var all []vector
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var some []vector
		if err := json.Unmarshal(data, &some); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, some...)
	}
	return all
}

// checkVector asks twice: the second answer uses what the first left behind.
func checkVector(t *testing.T, v vector) {
	t.Helper()
	verifier, err := New(v.Config)
	if err != nil {
		t.Errorf("%s: %v", v.Claim, err)
		return
	}
	for range 2 {
		if got := reasonOf(t, verifier.Verify(v.request())); got != v.Reason {
			t.Errorf("%s: reason %q, want %q", v.Claim, got, v.Reason)
		}
	}
}

// reasonOf also checks what holds for every error.
func reasonOf(t testing.TB, err error) Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	e, ok := errors.AsType[*Error](err)
	if !ok || !errors.Is(err, ErrSignature) || e.Reason == "" || e.Detail == "" {
		t.Errorf("error %#v, want an *Error with reason and detail that wraps ErrSignature", err)
		return "?"
	}
	return e.Reason
}

// TestSharedVectors runs the vectors collected from providers, which are not
// ours to copy, for all presets.
func TestSharedVectors(t *testing.T) {
	const file = "../../shared/vectors.json"
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("%s is absent: the providers' own vectors were not run", file)
	}
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Provider, Name, Body, Secret, Expect string
		Headers                              map[string]string
		Now                                  int64
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	for _, v := range all {
		preset, ok := FindPreset(v.Provider)
		if !ok {
			continue
		}
		ran[v.Provider]++
		verifier, err := New(preset.Config([]string{v.Secret}))
		if err != nil {
			t.Fatal(err)
		}
		r := &Request{Header: http.Header{}, Body: []byte(v.Body), At: time.Unix(v.Now, 0)}
		for name, value := range v.Headers {
			r.Header.Set(name, value)
		}
		if err := verifier.Verify(r); (reasonOf(t, err) == "") != (v.Expect == "valid") {
			t.Errorf("%s: %s: got %v, want %s", v.Provider, v.Name, err, v.Expect)
		}
	}
	for _, p := range Presets() {
		if ran[p.ID] == 0 {
			t.Errorf("no vector for %s", p.ID)
		}
	}
	t.Logf("vectors: %v", ran)
}
