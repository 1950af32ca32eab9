package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed static/*.css static/*.js static/*.svg
var staticFiles embed.FS

// Assets serves style sheets and scripts under one path. The name of a file contains the hash of
// its content, so that browsers may keep it for a year. Create it with NewAssets. It is safe for
// concurrent use.
type Assets struct {
	prefix string
	files  map[string]asset  // by hashed name
	names  map[string]string // hashed name by plain name
}

type asset struct {
	contentType   string
	plain, zipped []byte
}

// NewAssets returns the files of this package under prefix, for example /console/static/. It adds
// the files of extra, by plain name, for example the colors of a portal.
func NewAssets(prefix string, extra map[string][]byte) *Assets {
	a := &Assets{prefix: prefix, files: map[string]asset{}, names: map[string]string{}}
	_ = fs.WalkDir(staticFiles, ".", func(name string, d fs.DirEntry, _ error) error {
		if !d.IsDir() {
			content, _ := staticFiles.ReadFile(name) // embedded files can always be read
			a.add(path.Base(name), content)
		}
		return nil
	})
	for name, content := range extra {
		a.add(name, content)
	}
	return a
}

func (a *Assets) add(name string, content []byte) {
	const hashBytes = 8
	sum := sha256.Sum256(content)
	extension := path.Ext(name)
	hashed := strings.TrimSuffix(name, extension) + "-" + hex.EncodeToString(sum[:hashBytes]) + extension
	a.names[name] = hashed
	a.files[hashed] = asset{contentType: mime.TypeByExtension(extension), plain: content, zipped: zip(content)}
}

func zip(content []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid, and a Buffer takes all bytes
	_, _ = w.Write(content)
	_ = w.Close()
	return b.Bytes()
}

// URL returns the path of a file. It panics if there is no such file, because only templates of
// the program name files.
func (a *Assets) URL(name string) string {
	hashed, ok := a.names[name]
	if !ok {
		panic(fmt.Sprintf("web: no static file is named %q", name))
	}
	return a.prefix + hashed
}

// ServeHTTP serves a file. An unknown name is a 404.
func (a *Assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file, ok := a.files[strings.TrimPrefix(r.URL.Path, a.prefix)]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", file.contentType)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	h.Set("X-Content-Type-Options", "nosniff")
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		_, _ = w.Write(file.zipped) // the client may have disconnected
		return
	}
	_, _ = w.Write(file.plain)
}

func acceptsGzip(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}
