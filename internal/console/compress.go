package console

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strings"
)

// takesGzip reports whether the browser takes compressed answers. Quality values in the header are ignored.
func takesGzip(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

func gzipText(text []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(text) // a Buffer has no errors
	_ = w.Close()
	return out.Bytes()
}

// writeBody writes the body of an answer, compressed if the browser takes compressed answers.
func writeBody(w http.ResponseWriter, r *http.Request, status int, text []byte) {
	w.Header().Set("Vary", "Accept-Encoding")
	if takesGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		text = gzipText(text)
	}
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error means that the browser has gone
}

// asset is a style sheet or script, plain and compressed with gzip.
type asset struct{ plain, compressed []byte }

// readAssets returns the handler for the style sheets and scripts. Their address contains their digest, so browsers
// may cache them forever.
func readAssets() (http.Handler, error) {
	entries, err := files.ReadDir("assets")
	if err != nil {
		return nil, err
	}
	assets := map[string]asset{}
	for _, e := range entries {
		text, err := files.ReadFile("assets/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		assets[e.Name()] = asset{text, gzipText(text)}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found, ok := assets[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(r.URL.Path)))
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		w.Header().Set("Vary", "Accept-Encoding")
		text := found.plain
		if takesGzip(r) {
			w.Header().Set("Content-Encoding", "gzip")
			text = found.compressed
		}
		_, _ = w.Write(text) // an error means that the browser has gone
	}), nil
}
