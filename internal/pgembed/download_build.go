package pgembed

import (
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
)

// jarURL returns the URL of the build of PostgreSQL for this system.
func jarURL(version string) string {
	_, err := os.Stat("/etc/alpine-release")
	artifact := "embedded-postgres-binaries-" + platform(runtime.GOOS, runtime.GOARCH, err == nil)
	return fmt.Sprintf("%s/io/zonky/test/postgres/%s/%s/%s-%s.jar", repository, artifact, version, artifact, version)
}

// platform returns the name of a system in the repository, such as linux-arm64v8-alpine.
func platform(goos, goarch string, alpine bool) string {
	arch := goarch
	switch goarch {
	case "386":
		arch = "i386"
	case "arm":
		arch = "arm32v7"
		if machine, _ := output("uname", "-m"); strings.HasPrefix(machine, "armv6") {
			arch = "arm32v6"
		}
	case "arm64":
		arch = "arm64v8"
	}
	if alpine && goos == "linux" {
		arch += "-alpine"
	}
	return goos + "-" + arch
}

// progress is a writer that logs the start of a download and each quarter of it. It logs
// nothing if total, the number of bytes to expect, is unknown.
type progress struct {
	log      *slog.Logger
	total    int64
	received int64
	quarters int64 // logged so far
}

func (p *progress) Write(b []byte) (int, error) {
	if p.received == 0 && p.total > 0 {
		p.log.Info("downloading PostgreSQL", "size", megabytes(p.total))
	}
	p.received += int64(len(b))
	if p.total <= 0 {
		return len(b), nil
	}
	if quarters := 4 * p.received / p.total; quarters > p.quarters {
		p.quarters = quarters
		p.log.Info("downloading PostgreSQL", "received", megabytes(p.received), "of", megabytes(p.total))
	}
	return len(b), nil
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
