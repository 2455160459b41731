// Package enforcement limits consumers to their grants. When the pods of a placement exceed its
// grant, it evicts the newest of them. When pods that were refused earlier would fit again, it
// makes Liqo retry them.
package enforcement
