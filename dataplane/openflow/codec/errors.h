// SPDX-License-Identifier: Apache-2.0
// OpenFlow's error types and codes under the specification's names (section 7.4.4).
//
// ONF extension errors have type 0xffff; their code is then the exp_type, and the encoder adds
// ONF's experimenter id (EXT-230, EXT-260).
#pragma once

#include "pipeline/terms/flow_types.h"

namespace headrace::openflow {

using pipeline::OfError;
using pipeline::OfResult;

/// `return of_fail(error::kBadLen);`
inline tl::unexpected<OfError> of_fail(OfError error) {
  return tl::unexpected<OfError>(error);
}

namespace error {

inline constexpr uint16_t kExperimenterType = 0xffff;

inline constexpr OfError kHelloIncompatible{0, 0};

inline constexpr OfError kBadVersion{1, 0};
inline constexpr OfError kBadType{1, 1};
inline constexpr OfError kBadMultipart{1, 2};
inline constexpr OfError kBadExperimenter{1, 3};
inline constexpr OfError kBadExpType{1, 4};
inline constexpr OfError kRequestNotPermitted{1, 5};
inline constexpr OfError kBadLen{1, 6};
inline constexpr OfError kBufferEmpty{1, 7};
inline constexpr OfError kBufferUnknown{1, 8};
inline constexpr OfError kRequestBadTableId{1, 9};
inline constexpr OfError kIsSlave{1, 10};
inline constexpr OfError kBadPort{1, 11};
inline constexpr OfError kBadPacket{1, 12};
inline constexpr OfError kMultipartOverflow{1, 13};

inline constexpr OfError kActionBadType{2, 0};
inline constexpr OfError kActionBadLen{2, 1};
inline constexpr OfError kActionBadExperimenter{2, 2};
inline constexpr OfError kActionBadExpType{2, 3};
inline constexpr OfError kActionBadOutPort{2, 4};
inline constexpr OfError kActionBadArgument{2, 5};
inline constexpr OfError kActionTooMany{2, 7};
inline constexpr OfError kActionBadOutGroup{2, 9};
inline constexpr OfError kActionMatchInconsistent{2, 10};
inline constexpr OfError kActionBadSetType{2, 13};
inline constexpr OfError kActionBadSetLen{2, 14};
inline constexpr OfError kActionBadSetArgument{2, 15};

inline constexpr OfError kUnknownInstruction{3, 0};
inline constexpr OfError kInstructionBadTableId{3, 2};
inline constexpr OfError kInstructionBadExperimenter{3, 5};
inline constexpr OfError kInstructionBadLen{3, 7};
inline constexpr OfError kDuplicateInstruction{kExperimenterType, 2600};  // EXT-260

inline constexpr OfError kMatchBadType{4, 0};
inline constexpr OfError kMatchBadLen{4, 1};
inline constexpr OfError kMatchBadWildcards{4, 5};
inline constexpr OfError kMatchBadField{4, 6};
inline constexpr OfError kMatchBadValue{4, 7};
inline constexpr OfError kMatchBadMask{4, 8};
inline constexpr OfError kMatchBadPrereq{4, 9};
inline constexpr OfError kMatchDupField{4, 10};

inline constexpr OfError kFlowModBadTableId{5, 2};
inline constexpr OfError kOverlap{5, 3};
inline constexpr OfError kFlowModBadCommand{5, 6};
inline constexpr OfError kFlowModBadFlags{5, 7};

inline constexpr OfError kGroupExists{6, 0};
inline constexpr OfError kInvalidGroup{6, 1};
inline constexpr OfError kGroupBadType{6, 10};
inline constexpr OfError kGroupBadCommand{6, 11};
inline constexpr OfError kGroupBadBucket{6, 12};
inline constexpr OfError kGroupBadWatch{6, 13};

inline constexpr OfError kPortModBadPort{7, 0};
inline constexpr OfError kPortModBadHwAddr{7, 1};
inline constexpr OfError kPortModBadConfig{7, 2};
inline constexpr OfError kPortModBadAdvertise{7, 3};

inline constexpr OfError kTableModBadTable{8, 0};
inline constexpr OfError kTableModBadConfig{8, 1};

inline constexpr OfError kQueueBadPort{9, 0};
inline constexpr OfError kQueueBadQueue{9, 1};

inline constexpr OfError kConfigBadFlags{10, 0};
inline constexpr OfError kConfigNotPermitted{10, 2};

inline constexpr OfError kRoleStale{11, 0};
inline constexpr OfError kBadRole{11, 2};

inline constexpr OfError kInvalidMeter{12, 2};
inline constexpr OfError kUnknownMeter{12, 3};
inline constexpr OfError kMeterBadCommand{12, 4};
inline constexpr OfError kMeterBadFlags{12, 5};
inline constexpr OfError kMeterBadBand{12, 8};
inline constexpr OfError kMeterBadBandValue{12, 9};

inline constexpr OfError kFeaturesBadTable{13, 0};
inline constexpr OfError kFeaturesBadType{13, 2};
inline constexpr OfError kFeaturesBadLen{13, 3};
inline constexpr OfError kFeaturesBadArgument{13, 4};
inline constexpr OfError kFeaturesNotPermitted{13, 5};

// OpenFlow 1.4's numbers: EXT-187, which adds flow monitors to 1.3, defines none.
inline constexpr OfError kMonitorExists{16, 1};
inline constexpr OfError kUnknownMonitor{16, 3};
inline constexpr OfError kMonitorBadFlags{16, 5};

inline constexpr OfError kBundleBadId{kExperimenterType, 2302};
inline constexpr OfError kBundleExists{kExperimenterType, 2303};
inline constexpr OfError kBundleClosed{kExperimenterType, 2304};
inline constexpr OfError kOutOfBundles{kExperimenterType, 2305};
inline constexpr OfError kBundleBadType{kExperimenterType, 2306};
inline constexpr OfError kBundleBadFlags{kExperimenterType, 2307};
inline constexpr OfError kBundleMsgBadLen{kExperimenterType, 2308};
inline constexpr OfError kBundleMsgBadXid{kExperimenterType, 2309};
inline constexpr OfError kBundleMsgUnsupported{kExperimenterType, 2310};
inline constexpr OfError kBundleMsgTooMany{kExperimenterType, 2312};
inline constexpr OfError kBundleMsgFailed{kExperimenterType, 2313};

}  // namespace error
}  // namespace headrace::openflow
