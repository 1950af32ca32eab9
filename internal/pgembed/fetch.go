package pgembed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

const fetchedMajor = 18 // for a new cluster

// versions are those that can be fetched.
var versions = map[int]embeddedpostgres.PostgresVersion{
	14: embeddedpostgres.V14,
	15: embeddedpostgres.V15,
	16: embeddedpostgres.V16,
	17: embeddedpostgres.V17,
	18: embeddedpostgres.V18,
}

// repository has the builds of PostgreSQL. A variable for the tests.
var repository = "https://repo1.maven.org/maven2"

// fetched returns the folder of fetched programs, fetching them once. They
// are unpacked beside their place and moved there when they are whole.
func (s *Server) fetched(ctx context.Context, major int) (string, error) {
	if major == 0 {
		major = fetchedMajor
	}
	version, ok := versions[major]
	if !ok {
		return "", fmt.Errorf("PostgreSQL %d cannot be fetched", major)
	}
	final := filepath.Join(s.place.home, "postgresql-"+string(version))
	bin := filepath.Join(final, "bin")
	if majorOf(bin) == major {
		return bin, nil
	}
	if err := makeHome(s.place.home); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(s.place.home, "fetch-*")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	s.opts.Log.Info("fetching PostgreSQL, since none is installed", "version", version, "from", repository, "to", final)
	if err := fetch(ctx, version, tmp); err != nil {
		return "", fmt.Errorf("fetch PostgreSQL %s: %w", version, err)
	}
	programs := filepath.Join(tmp, "programs")
	if majorOf(filepath.Join(programs, "bin")) != major {
		return "", fmt.Errorf("the fetched PostgreSQL %s does not run on this system", version)
	}
	if err := os.RemoveAll(final); err != nil {
		return "", err
	}
	return bin, os.Rename(programs, final)
}

// fetch unpacks the programs into dir/programs. The library has no call for
// that alone, and what else its Start does does not fit: it would run
// PostgreSQL as root and on TCP. So Start gets a data folder that it must
// refuse — its name ends in a dot, which cannot be removed — after the
// programs are unpacked, and that refusal is the sign of success.
func fetch(ctx context.Context, version embeddedpostgres.PostgresVersion, dir string) error {
	db := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(version).
		Port(0).
		BinaryRepositoryURL(repository).
		CachePath(filepath.Join(dir, "cache")).
		RuntimePath(filepath.Join(dir, "runtime")).
		DataPath(dir + "/data/.").
		BinariesPath(filepath.Join(dir, "programs")).
		Logger(io.Discard))
	// Start hears no ctx: after its end, Start is left to itself.
	result := make(chan error, 1)
	go func() { result <- db.Start() }()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-result:
		if err == nil { // a newer library that accepts such a folder
			return errors.Join(errors.New("it was started instead"), db.Stop())
		}
		if strings.Contains(err.Error(), "unable to clean up data directory") {
			return nil
		}
		return err
	}
}
