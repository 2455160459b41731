package view

import "sync"

// Warnings collects the warnings in the answers of an API server. It implements rest.WarningHandler, and is safe for
// concurrent use.
type Warnings struct {
	// mu guards the following field.
	mu    sync.Mutex
	texts []string
}

// warningCode is the code of warnings for users, see RFC 7234. Kubernetes uses no other.
const warningCode = 299

// HandleWarningHeader implements rest.WarningHandler.
func (w *Warnings) HandleWarningHeader(code int, _ string, text string) {
	if code != warningCode || text == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// List returns the warnings so far, oldest first.
func (w *Warnings) List() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.texts
}
