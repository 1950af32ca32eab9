package pgembed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// repository is the Maven repository with the builds of PostgreSQL that the project
// zonkyio/embedded-postgres-binaries publishes. Tests replace it.
var repository = "https://repo1.maven.org/maven2"

// downloadMajor is the version that a new cluster gets if no PostgreSQL is installed.
const downloadMajor = 18

// downloadVersions has the version to download for each major version.
var downloadVersions = map[int]string{14: "14.18.0", 15: "15.13.0", 16: "16.9.0", 17: "17.5.0", 18: "18.3.0"}

const (
	downloadTimeout = 15 * time.Minute
	maxJarBytes     = 256 << 20 // a build has 10 to 60 MB
	maxSumBytes     = 1 << 10
	downloadPattern = "download-*" // for os.MkdirTemp
)

// download returns the folder with the programs of a downloaded PostgreSQL. It downloads them
// unless an earlier call did. If major is 0, download returns the programs for a new cluster.
// The folder is complete or absent, even if the gateway is killed. The caller must hold the
// lock.
func (s *Server) download(ctx context.Context, major int) (binDir string, err error) {
	if major == 0 {
		major = downloadMajor
	}
	version, ok := downloadVersions[major]
	if !ok {
		return "", fmt.Errorf("PostgreSQL %d cannot be downloaded", major)
	}
	final := filepath.Join(s.place.home, "postgresql-"+version)
	if binDir = filepath.Join(final, "bin"); majorOf(binDir) == major {
		return binDir, nil
	}
	if err := makeHome(s.place.home); err != nil {
		return "", err
	}
	removeLeftovers(s.place.home, downloadPattern)
	tmp, err := os.MkdirTemp(s.place.home, downloadPattern)
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	s.opts.Log.Info("PostgreSQL is not installed; it is downloaded", "version", version, "from", repository, "to", final)
	programs := filepath.Join(tmp, "programs")
	if err := s.downloadTo(ctx, version, programs); err != nil {
		return "", fmt.Errorf("download PostgreSQL %s: %w", version, err)
	}
	if dir := filepath.Join(programs, "bin"); majorOf(dir) != major {
		return "", fmt.Errorf("the downloaded PostgreSQL %s cannot be used: %w", version, faultOf(dir))
	}
	if err := os.RemoveAll(final); err != nil {
		return "", err
	}
	return binDir, os.Rename(programs, final)
}

// downloadTo downloads the jar of a version for this system, compares it with its published
// checksum and unpacks it in the new folder dir. The checksum detects a damaged jar. TLS
// authenticates the repository.
func (s *Server) downloadTo(ctx context.Context, version, dir string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, downloadTimeout, fmt.Errorf("it took longer than %s", downloadTimeout))
	defer cancel()
	url := jarURL(version)
	want, err := publishedSum(ctx, url+".sha256")
	if err != nil {
		return err
	}
	jar := dir + ".jar"
	got, err := s.downloadJar(ctx, url, jar)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%s: SHA-256 is %s, but its published checksum is %s", url, got, want)
	}
	if err := unpackJar(ctx, jar, dir); err != nil {
		return fmt.Errorf("unpack %s: %w", url, err)
	}
	return nil
}

// publishedSum returns the SHA-256 checksum at a URL in lower-case hexadecimal digits.
func publishedSum(ctx context.Context, url string) (string, error) {
	resp, err := get(ctx, url)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxSumBytes))
	if err != nil {
		return "", failed(ctx, url, err)
	}
	sum, _, _ := strings.Cut(strings.TrimSpace(string(b)), " ") // a file name may follow
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("%s is not a SHA-256 checksum", url)
	}
	return strings.ToLower(sum), nil
}

// downloadJar writes the jar at a URL to a new file and returns its SHA-256 checksum.
func (s *Server) downloadJar(ctx context.Context, url, file string) (sum string, err error) {
	resp, err := get(ctx, url)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.ContentLength > maxJarBytes {
		return "", fmt.Errorf("%s has %d bytes, more than %d", url, resp.ContentLength, maxJarBytes)
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	progress := &progress{log: s.opts.Log, total: resp.ContentLength}
	n, err := io.Copy(io.MultiWriter(f, hash, progress), io.LimitReader(resp.Body, maxJarBytes+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", failed(ctx, url, err)
	}
	if n > maxJarBytes {
		return "", fmt.Errorf("%s has more than %d bytes", url, maxJarBytes)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// get requests a file of the repository. The caller must close the body.
func get(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, failed(ctx, url, errors.Unwrap(err)) // without the URL of *url.Error
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	_ = resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("%s: 404 Not Found; the repository has no build for this system", url)
	}
	return nil, fmt.Errorf("%s: %s", url, resp.Status)
}

// failed returns the error of a request: the cause of ctx if ctx has ended, otherwise err.
func failed(ctx context.Context, url string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%s: %w", url, err)
}
