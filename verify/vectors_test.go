package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// vector is a test vector with a complete Config. Its signature was computed by
// code outside this repository.
type vector struct {
	Claim  string
	Config Config
	Method string // POST if empty
	URL    string
	Header http.Header
	Body   string
	At     int64
	Reason Reason // empty: verified
}

func (v vector) request() *Request {
	r := &Request{Method: v.Method, URL: v.URL, Header: v.Header, Body: []byte(v.Body), At: time.Unix(v.At, 0)}
	if r.Method == "" {
		r.Method = http.MethodPost
	}
	return r
}

// TestVectors requires a folder for every scheme with valid requests and, except
// for the scheme none, invalid requests.
func TestVectors(t *testing.T) {
	for scheme := range schemes {
		t.Run(scheme, func(t *testing.T) {
			passed, refused := 0, 0
			for _, v := range loadFolder[vector](t, filepath.Join("testdata", scheme)) {
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

// checkVector verifies twice: the second run reuses the buffers of the first.
func checkVector(t *testing.T, v vector) {
	t.Helper()
	verifier, err := New(v.Config, nil)
	if err != nil {
		t.Errorf("%s: %v, want a verifier", v.Claim, err)
		return
	}
	for name := range v.Header {
		if name != http.CanonicalHeaderKey(name) {
			t.Errorf("%s: header %s, want its canonical form", v.Claim, name)
		}
	}
	for range 2 {
		err := verifier.Verify(t.Context(), v.request())
		if got := reasonOf(t, err); got != v.Reason {
			t.Errorf("%s: got %q (%v), want %q", v.Claim, got, err, v.Reason)
		}
	}
}

// TestRequestsDoNotAffectEachOther verifies all vectors of a Config with one
// verifier, forwards and backwards.
func TestRequestsDoNotAffectEachOther(t *testing.T) {
	for scheme := range schemes {
		all := loadFolder[vector](t, filepath.Join("testdata", scheme))
		verifiers := map[string]Verifier{}
		for range 2 {
			for _, v := range all {
				config, err := json.Marshal(v.Config)
				if err != nil {
					t.Fatal(err)
				}
				if verifiers[string(config)] == nil {
					verifiers[string(config)] = mustNew(t, v.Config)
				}
				err = verifiers[string(config)].Verify(t.Context(), v.request())
				if got := reasonOf(t, err); got != v.Reason {
					t.Errorf("%s: %s: got %q (%v) after the other vectors, want %q", scheme, v.Claim, got, err, v.Reason)
				}
			}
			slices.Reverse(all)
		}
	}
}

// TestPresetVectors requires a file for every provider, with valid and invalid
// requests of each of its schemes, and no other file.
func TestPresetVectors(t *testing.T) {
	type key struct{ provider, scheme, expect string }
	count := map[key]int{}
	for _, file := range jsonFiles(t, "testdata/presets") {
		for _, v := range loadFile[Vector](t, file) {
			if want := v.Provider + ".json"; filepath.Base(file) != want {
				t.Errorf("%s: %s: a vector of %s, want it in %s", file, v.Name, v.Provider, want)
			}
			count[key{v.Provider, v.Scheme, v.Expect}]++
			checkPresetVector(t, v)
		}
	}
	for _, p := range Presets() {
		valid, invalid := key{p.ID, p.Scheme, "valid"}, key{p.ID, p.Scheme, "invalid"}
		if count[valid] == 0 || count[invalid] == 0 {
			t.Errorf("%s, %s: %d valid and %d invalid vectors, want some of both", p.ID, p.Scheme, count[valid], count[invalid])
		}
		delete(count, valid)
		delete(count, invalid)
	}
	for k := range count {
		t.Errorf("a vector of %v, want a preset for it, and valid or invalid", k)
	}
}

// checkPresetVector also verifies twice.
func checkPresetVector(t *testing.T, v Vector) {
	t.Helper()
	resolved := resolve(t, v)
	verifier, err := resolved.New(nil)
	if err != nil {
		t.Errorf("%s, %s: %s: %v, want a verifier", v.Provider, v.Scheme, v.Name, err)
		return
	}
	for _, err := range []error{v.Verify(t.Context(), nil), verifier.Verify(t.Context(), v.Request()), verifier.Verify(t.Context(), v.Request())} {
		if got := reasonOf(t, err); (got == "") != (v.Expect == "valid") {
			t.Errorf("%s, %s: %s: got %v, want %s", v.Provider, v.Scheme, v.Name, err, v.Expect)
		}
	}
}

func resolve(t testing.TB, v Vector) Resolved {
	t.Helper()
	s, err := v.Spec()
	if err != nil {
		t.Fatalf("%s, %s: %s: %v", v.Provider, v.Scheme, v.Name, err)
	}
	resolved, faults := s.Resolve()
	if len(faults) > 0 {
		t.Fatalf("%s, %s: %s: faults %v, want none", v.Provider, v.Scheme, v.Name, faults)
	}
	return resolved
}

// Vectors that other projects published, or that are
// derived from them, must not be copied.
func TestPresetVectorsAreOriginal(t *testing.T) {
	for _, file := range jsonFiles(t, "testdata/presets") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"published", "derived from", `"source"`, "confirmed_by"} {
			if bytes.Contains(bytes.ToLower(data), []byte(word)) {
				t.Errorf("%s contains %s", file, word)
			}
		}
	}
}

const sharedVectors = "../../shared/vectors.json"

// TestSharedVectors runs all vectors collected from providers, including vectors
// that must not be copied, and requires a preset for each of their providers.
func TestSharedVectors(t *testing.T) {
	ran := map[string]int{}
	for _, v := range loadShared(t) {
		if _, ok := FindPreset(v.Provider, v.Scheme); !ok {
			t.Errorf("%s, %s: no preset", v.Provider, v.Scheme)
			continue
		}
		ran[v.Expect]++
		checkPresetVector(t, v)
	}
	if len(ran) != 2 || ran["valid"] == 0 || ran["invalid"] == 0 {
		t.Errorf("ran %v, want only valid and invalid vectors, and some of both", ran)
	}
	t.Logf("ran %v", ran)
}

// loadShared skips the test if the file does not exist.
func loadShared(t testing.TB) []Vector {
	t.Helper()
	if _, err := os.Stat(sharedVectors); errors.Is(err, os.ErrNotExist) {
		t.Skipf("%s is absent: the vectors collected from providers were not run", sharedVectors)
	}
	return loadFile[Vector](t, sharedVectors)
}

func jsonFiles(t testing.TB, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors in %s (%v)", folder, err)
	}
	return files
}

func loadFolder[V any](t testing.TB, folder string) (all []V) {
	t.Helper()
	for _, file := range jsonFiles(t, folder) {
		all = append(all, loadFile[V](t, file)...)
	}
	return all
}

// loadFile refuses an empty file and unknown members, except the comment "why".
func loadFile[V any](t testing.TB, file string) (all []V) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if strings.HasPrefix(file, "testdata") && !strings.Contains(file, "presets") {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(&all); err != nil || len(all) == 0 {
		t.Fatalf("%s: %d vectors, %v", file, len(all), err)
	}
	return all
}

// reasonOf returns the error's reason and checks the rules for every error.
func reasonOf(t testing.TB, err error) Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	e, ok := errors.AsType[*Error](err)
	if !ok || e == nil || !errors.Is(err, ErrSignature) || e.Reason == "" || e.Detail == "" {
		t.Errorf("error %#v, want an *Error with reason and detail that wraps ErrSignature", err)
		return "?"
	}
	return e.Reason
}
