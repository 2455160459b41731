package inbox

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Key is the idempotency key of one attempt of a ResourceRequest.
func Key(uid types.UID, attempt int32) string {
	return fmt.Sprintf("%s.%d", uid, attempt)
}

// parseKey is the reverse of Key.
func parseKey(key string) (types.UID, int32, bool) {
	uid, attempt, ok := strings.Cut(key, ".")
	n, err := strconv.ParseInt(attempt, 10, 32)
	if !ok || err != nil || uid == "" {
		return "", 0, false
	}
	return types.UID(uid), int32(n), true
}
