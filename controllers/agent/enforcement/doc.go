// Package enforcement limits consumers to their grants. It evicts the newest pods of a
// placement that exceeds its grant, and makes Liqo retry refused pods as soon as they fit.
package enforcement
