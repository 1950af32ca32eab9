package pgembed

import (
	"archive/tar"
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/xi2/xz"
)

// Limits of an archive. A build has about 2000 files with 50 to 200 MB.
const (
	maxUnpackedBytes = 1 << 30
	maxUnpackedFiles = 20_000
)

// unpackJar unpacks the programs in a jar in the new folder dir. A jar is a zip file, and the
// programs are a .txz file in it.
func unpackJar(ctx context.Context, jar, dir string) error {
	z, err := zip.OpenReader(jar)
	if err != nil {
		return err
	}
	defer func() { _ = z.Close() }()
	for _, file := range z.File {
		if !strings.HasSuffix(file.Name, ".txz") {
			continue
		}
		packed, err := file.Open()
		if err != nil {
			return err
		}
		defer func() { _ = packed.Close() }()
		unpacked, err := xz.NewReader(packed, xz.DefaultDictMax)
		if err != nil {
			return fmt.Errorf("%s: %w", file.Name, err)
		}
		return unpackTar(ctx, tar.NewReader(unpacked), dir)
	}
	return errors.New("it has no .txz file")
}

// unpackTar unpacks an archive in the new folder dir. Every user may read and execute the
// files, because PostgreSQL runs as another user if this process is root. unpackTar fails for
// an entry that would be outside dir or that is not a file, folder or symbolic link.
func unpackTar(ctx context.Context, archive *tar.Reader, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir) // refuses paths that lead out of dir, also through links
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	var size int64
	for files := 0; ctx.Err() == nil; files++ {
		entry, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return makeReadable(dir)
		}
		if err != nil {
			return err
		}
		if entry.Size > maxUnpackedBytes-size || files == maxUnpackedFiles { // the sum could overflow
			return fmt.Errorf("it has more than %d bytes or %d files", maxUnpackedBytes, maxUnpackedFiles)
		}
		size += entry.Size
		if err := unpackEntry(root, entry, archive); err != nil {
			return fmt.Errorf("entry %q: %w", entry.Name, err)
		}
	}
	return context.Cause(ctx)
}

func unpackEntry(root *os.Root, entry *tar.Header, content io.Reader) error {
	name := path.Clean(entry.Name)
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	switch entry.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o700)
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600|fs.FileMode(entry.Mode)&0o100)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Close())
	case tar.TypeSymlink:
		if path.IsAbs(entry.Linkname) || !filepath.IsLocal(path.Join(path.Dir(name), entry.Linkname)) { //nolint:gosec // only checked, not opened
			return fmt.Errorf("its link target %q is outside the archive", entry.Linkname)
		}
		return root.Symlink(entry.Linkname, name)
	default:
		return fmt.Errorf("its type %q is not a file, folder or symbolic link", entry.Typeflag)
	}
}

// makeReadable lets every user read the folders and files in dir, regardless of the umask, and
// execute the files that their owner may execute.
func makeReadable(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		return os.Chmod(name, mode) //nolint:gosec // no other program writes to dir
	})
}
