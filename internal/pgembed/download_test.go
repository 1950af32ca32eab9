package pgembed

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// fakeRepository serves the files of a repository by the extension of their path. Other paths
// are not found.
func fakeRepository(t *testing.T, files map[string]http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve, ok := files[path.Ext(r.URL.Path)]
		if !ok || !strings.HasPrefix(r.URL.Path, "/io/zonky/test/postgres/embedded-postgres-binaries-") {
			http.NotFound(w, r)
			return
		}
		serve(w, r)
	}))
	t.Cleanup(srv.Close)
	old := repository
	t.Cleanup(func() { repository = old })
	repository = srv.URL
	return srv
}

func serve(content []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content)
	}
}

func sumOf(content []byte) []byte { return fmt.Appendf(nil, "%X  build.jar\n", sha256.Sum256(content)) }

// jar returns a zip file with one file.
func jar(t *testing.T, name string, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create(name)
	check(t, err)
	_, err = w.Write(content)
	check(t, err)
	check(t, z.Close())
	return b.Bytes()
}

// programsTXZ returns an archive with shell scripts that report version 18.
func programsTXZ(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/programs.txz")
	check(t, err)
	return b
}

func downloader(t *testing.T, log io.Writer) *Server {
	dir := dataDir(t)
	o := withDefaults(t, Options{DataDir: dir})
	if log != nil {
		o.Log = slog.New(slog.NewTextHandler(log, nil))
	}
	return &Server{opts: o, place: newPlace(dir)}
}

func TestDownload(t *testing.T) {
	content := jar(t, "postgres-linux-x86_64.txz", programsTXZ(t))
	srv := fakeRepository(t, map[string]http.HandlerFunc{".jar": serve(content), ".sha256": serve(sumOf(content))})
	var log bytes.Buffer
	s := downloader(t, &log)
	abandoned := filepath.Join(s.place.home, "download-1234")
	check(t, os.Mkdir(abandoned, 0o700))

	bin, err := s.download(limit(t), 0)
	check(t, err)
	if got := majorOf(bin); got != 18 {
		t.Errorf("downloaded version: got %d, want 18", got)
	}
	for _, want := range []string{"version=18.3.0", srv.URL, `msg="downloading PostgreSQL" size="0.0 MB"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log: got\n%s\nwant %q in it", log.String(), want)
		}
	}
	wantNoTemporaryFolder(t, s)
	srv.Close()
	if again, err := s.download(limit(t), 18); err != nil || again != bin {
		t.Errorf("second call: got %q, %v, want %q without a request", again, err, bin)
	}
}

// If this process is root, PostgreSQL runs as another user.
func TestDownloadedProgramsAreExecutableByEveryUser(t *testing.T) {
	content := jar(t, "postgres.txz", programsTXZ(t))
	fakeRepository(t, map[string]http.HandlerFunc{".jar": serve(content), ".sha256": serve(sumOf(content))})
	s := downloader(t, nil)
	bin, err := s.download(limit(t), 18)
	check(t, err)
	for _, name := range []string{filepath.Dir(bin), bin, filepath.Join(bin, "postgres")} {
		info, err := os.Stat(name)
		check(t, err)
		if info.Mode().Perm() != 0o755 {
			t.Errorf("%s: got mode %v, want 0755", name, info.Mode())
		}
	}
}

func TestDownloadFails(t *testing.T) {
	content := jar(t, "postgres.txz", programsTXZ(t))
	wrong := bytes.Clone(content)
	wrong[len(wrong)/2] ^= 1
	cutTXZ := jar(t, "postgres.txz", programsTXZ(t)[:100])
	noTXZ := jar(t, "README", nil)
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content[:len(content)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	huge := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", strconv.Itoa(1<<40)) }
	unavailable := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	for _, c := range []struct {
		claim    string
		jar, sum http.HandlerFunc
		want     string
	}{
		{"wrong checksum", serve(wrong), serve(sumOf(content)), "its published checksum is"},
		{"no checksum", serve(content), http.NotFound, ".jar.sha256: 404 Not Found; the repository has no build for this system"},
		{"page instead of a checksum", serve(content), serve([]byte("<html>")), "is not a SHA-256 checksum"},
		{"no build", http.NotFound, serve(sumOf(content)), ".jar: 404 Not Found; the repository has no build for this system"},
		{"repository unavailable", unavailable, serve(sumOf(content)), ".jar: 503 Service Unavailable"},
		{"download cut", cut, serve(sumOf(content)), ".jar: unexpected EOF"},
		{"jar too large", huge, serve(sumOf(content)), "has 1099511627776 bytes, more than 268435456"},
		{"not a zip file", serve([]byte("x")), serve(sumOf([]byte("x"))), "zip: not a valid zip file"},
		{"archive cut", serve(cutTXZ), serve(sumOf(cutTXZ)), "unpack "},
		{"no archive", serve(noTXZ), serve(sumOf(noTXZ)), "it has no .txz file"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			fakeRepository(t, map[string]http.HandlerFunc{".jar": c.jar, ".sha256": c.sum})
			s := downloader(t, nil)
			_, err := s.download(limit(t), 18)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "download PostgreSQL 18.3.0: ") {
				t.Errorf("got error %v, want %q in it", err, c.want)
			}
			wantNoTemporaryFolder(t, s)
		})
	}
}

func TestDownloadedProgramsMustHaveTheVersion(t *testing.T) {
	content := jar(t, "postgres.txz", programsTXZ(t)) // version 18
	fakeRepository(t, map[string]http.HandlerFunc{".jar": serve(content), ".sha256": serve(sumOf(content))})
	_, err := downloader(t, nil).download(limit(t), 17)
	const want = `the downloaded PostgreSQL 17.5.0 cannot be used: postgres --version prints "postgres (PostgreSQL) 18.3"`
	if err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
}

func TestFaultOfPrograms(t *testing.T) {
	const broken = "#!/bin/sh\necho 'cannot load libssl.so.3' >&2\nexit 127\n"
	for _, c := range []struct {
		claim, postgres string
		mode            fs.FileMode
		hasInitdb       bool
		want            string
	}{
		{"a missing library", broken, 0o700, true, "postgres --version: exit status 127: cannot load libssl.so.3"},
		{"a failure without a text", "#!/bin/sh\nexit 1\n", 0o700, true, "postgres --version: exit status 1"},
		{"a file that must not be executed", broken, 0o600, true, "permission denied"},
		{"no initdb", broken, 0o700, false, "initdb: no such file or directory"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			dir := t.TempDir()
			check(t, os.WriteFile(filepath.Join(dir, "postgres"), []byte(c.postgres), c.mode))
			if c.hasInitdb {
				check(t, os.WriteFile(filepath.Join(dir, "initdb"), nil, 0o700))
			}
			if err := faultOf(dir); !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("got %q, want %q at its end", err, c.want)
			}
		})
	}
}

func TestDownloadEndsWithItsContext(t *testing.T) {
	content := jar(t, "postgres.txz", programsTXZ(t))
	errStopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(limit(t))
	fakeRepository(t, map[string]http.HandlerFunc{".sha256": serve(sumOf(content)), ".jar": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content[:10])
		w.(http.Flusher).Flush()
		cancel(errStopped)
		<-r.Context().Done()
	}})
	s := downloader(t, nil)
	if _, err := s.download(ctx, 18); !errors.Is(err, errStopped) {
		t.Errorf("got error %v, want %v", err, errStopped)
	}
	wantNoTemporaryFolder(t, s)

	err := unpackTar(ctx, tar.NewReader(bytes.NewReader(nil)), filepath.Join(t.TempDir(), "programs"))
	if !errors.Is(err, errStopped) {
		t.Errorf("unpackTar: got error %v, want %v", err, errStopped)
	}
}

func TestAFailedDownloadSaysWhatToInstall(t *testing.T) {
	if _, _, err := newest(func(m int) bool { return m == 16 }); err == nil {
		t.Skip("PostgreSQL 16 is installed")
	}
	fakeRepository(t, nil).Close()
	s := downloader(t, nil)
	check(t, os.MkdirAll(s.place.cluster, 0o700))
	check(t, os.WriteFile(filepath.Join(s.place.cluster, "PG_VERSION"), []byte("16\n"), 0o600))
	_, err := s.binaries(limit(t))
	for _, want := range []string{"download PostgreSQL 16.9.0", "connection refused", "install PostgreSQL 16", "DATABASE_URL"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q in it", err, want)
		}
	}
}

func TestUnpackTarRefusesEntriesOutsideTheFolder(t *testing.T) {
	link := func(name, target string) tar.Header {
		return tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeSymlink}
	}
	file := func(name string) tar.Header {
		return tar.Header{Name: name, Size: 1, Mode: 0o4755, Typeflag: tar.TypeReg}
	}
	for _, c := range []struct {
		claim   string
		entries []tar.Header
		want    string // in the error; empty if there is none
	}{
		{"ordinary entries", []tar.Header{{Name: "./", Typeflag: tar.TypeDir}, {Name: "./lib/", Typeflag: tar.TypeDir, Mode: 0o555},
			file("./lib/a.so.1"), link("./lib/a.so", "a.so.1"), link("bin/a.so", "../lib/a.so")}, ""},
		{"parent folder", []tar.Header{file("../evil")}, `entry "../evil"`},
		{"parent folder inside the path", []tar.Header{file("bin/../../evil")}, `entry "bin/../../evil"`},
		{"absolute path", []tar.Header{file("/tmp/evil")}, `entry "/tmp/evil"`},
		{"folder outside", []tar.Header{{Name: "../evil", Typeflag: tar.TypeDir}}, `entry "../evil"`},
		{"absolute link", []tar.Header{link("a", "/etc/passwd")}, `its link target "/etc/passwd" is outside the archive`},
		{"link to a parent folder", []tar.Header{link("bin/a", "../../x")}, `its link target "../../x" is outside the archive`},
		{"file through a link that leads outside", []tar.Header{file("top/x"), link("d/e/s", "../../top"), link("d/e/a", "s/../.."), file("d/e/a/evil")}, `entry "d/e/a/evil"`},
		{"hard link", []tar.Header{{Name: "a", Linkname: "/etc/passwd", Typeflag: tar.TypeLink}}, "is not a file, folder or symbolic link"},
		{"device", []tar.Header{{Name: "a", Typeflag: tar.TypeBlock}}, "is not a file, folder or symbolic link"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			outside := t.TempDir()
			dir := filepath.Join(outside, "programs")
			err := unpackTar(t.Context(), tar.NewReader(archive(t, c.entries)), dir)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q in it", err, c.want)
			}
			list, err := os.ReadDir(outside)
			check(t, err)
			if len(list) != 1 {
				t.Errorf("the parent folder has %v, want only %s", list, dir)
			}
			check(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
				if info, ierr := d.Info(); ierr == nil && c.want == "" && info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm() != 0o755 {
					t.Errorf("%s: got mode %v, want 0755", name, info.Mode())
				}
				return err
			}))
		})
	}
}

func TestUnpackTarLimitsTheSize(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	check(t, w.WriteHeader(&tar.Header{Name: "a", Size: maxUnpackedBytes + 1, Typeflag: tar.TypeReg}))
	err := unpackTar(t.Context(), tar.NewReader(&b), filepath.Join(t.TempDir(), "programs"))
	if err == nil || !strings.Contains(err.Error(), "it has more than 1073741824 bytes or 20000 files") {
		t.Errorf("large file: got error %v, want that it is too large", err)
	}
	b.Reset()
	w = tar.NewWriter(&b)
	check(t, w.WriteHeader(&tar.Header{Name: "a", Size: 1, Typeflag: tar.TypeReg}))
	_, err = w.Write([]byte{0})
	check(t, err)
	check(t, w.WriteHeader(&tar.Header{Name: "b", Size: math.MaxInt64, Typeflag: tar.TypeReg}))
	err = unpackTar(t.Context(), tar.NewReader(&b), filepath.Join(t.TempDir(), "programs"))
	if err == nil || !strings.Contains(err.Error(), "it has more than 1073741824 bytes or 20000 files") {
		t.Errorf("sizes whose sum overflows: got error %v, want that they are too large", err)
	}
	many := make([]tar.Header, maxUnpackedFiles+1)
	for i := range many {
		many[i] = tar.Header{Name: "a", Typeflag: tar.TypeDir}
	}
	err = unpackTar(t.Context(), tar.NewReader(archive(t, many)), filepath.Join(t.TempDir(), "programs"))
	if err == nil || !strings.Contains(err.Error(), "it has more than 1073741824 bytes or 20000 files") {
		t.Errorf("many files: got error %v, want that there are too many", err)
	}
}

func archive(t *testing.T, entries []tar.Header) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		check(t, w.WriteHeader(&e))
		_, err := w.Write(make([]byte, e.Size))
		check(t, err)
	}
	check(t, w.Close())
	return &b
}

func TestPlatform(t *testing.T) {
	for _, c := range []struct {
		goos, goarch string
		alpine       bool
		want         string
	}{
		{"linux", "amd64", false, "linux-amd64"},
		{"linux", "amd64", true, "linux-amd64-alpine"},
		{"linux", "arm64", false, "linux-arm64v8"},
		{"linux", "arm64", true, "linux-arm64v8-alpine"},
		{"linux", "386", false, "linux-i386"},
		{"linux", "ppc64le", false, "linux-ppc64le"},
		{"darwin", "amd64", false, "darwin-amd64"},
		{"darwin", "arm64", false, "darwin-arm64v8"},
	} {
		if got := platform(c.goos, c.goarch, c.alpine); got != c.want {
			t.Errorf("%s/%s, Alpine %t: got %s, want %s", c.goos, c.goarch, c.alpine, got, c.want)
		}
	}
}

func wantNoTemporaryFolder(t *testing.T, s *Server) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(s.place.home, downloadPattern)); len(left) != 0 {
		t.Errorf("temporary folders that remain: %v", left)
	}
}
