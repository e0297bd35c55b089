// SPDX-License-Identifier: Apache-2.0
// The OpenFlow errors that the pipeline itself can answer with.
//
// Source: OpenFlow Switch Specification 1.3.5, section 7.4.4.
#pragma once

#include "pipeline/terms/flow_types.h"

namespace headrace::pipeline::of_error {

// OFPET_BAD_REQUEST
inline constexpr OfError kBadRequestBadTable{1, 9};
inline constexpr OfError kBadRequestBadPort{1, 11};
// OFPET_BAD_ACTION
inline constexpr OfError kBadActionLength{2, 1};
inline constexpr OfError kBadActionOutPort{2, 4};
inline constexpr OfError kBadActionArgument{2, 5};
inline constexpr OfError kBadActionOutGroup{2, 9};
inline constexpr OfError kBadActionSetType{2, 13};
inline constexpr OfError kBadActionSetLength{2, 14};
inline constexpr OfError kBadActionSetArgument{2, 15};
// OFPET_BAD_INSTRUCTION
inline constexpr OfError kBadInstructionTableId{3, 2};
inline constexpr OfError kBadInstructionDuplicate{3, 9};
// OFPET_FLOW_MOD_FAILED
inline constexpr OfError kFlowModTableFull{5, 1};
inline constexpr OfError kFlowModBadTableId{5, 2};
inline constexpr OfError kFlowModOverlap{5, 3};
inline constexpr OfError kFlowModBadCommand{5, 6};
inline constexpr OfError kFlowModBadFlags{5, 7};
// OFPET_GROUP_MOD_FAILED
inline constexpr OfError kGroupExists{6, 0};
inline constexpr OfError kGroupInvalid{6, 1};
inline constexpr OfError kGroupOutOfGroups{6, 3};
inline constexpr OfError kGroupOutOfBuckets{6, 4};
inline constexpr OfError kGroupLoop{6, 7};
inline constexpr OfError kGroupUnknown{6, 8};
inline constexpr OfError kGroupChained{6, 9};
inline constexpr OfError kGroupBadType{6, 10};
inline constexpr OfError kGroupBadWatch{6, 13};
// OFPET_PORT_MOD_FAILED
inline constexpr OfError kPortModBadPort{7, 0};
inline constexpr OfError kPortModBadHwAddr{7, 1};
inline constexpr OfError kPortModBadConfig{7, 2};
// OFPET_METER_MOD_FAILED
inline constexpr OfError kMeterExists{12, 1};
inline constexpr OfError kMeterInvalid{12, 2};
inline constexpr OfError kMeterUnknown{12, 3};
inline constexpr OfError kMeterBadFlags{12, 5};
inline constexpr OfError kMeterBadRate{12, 6};
inline constexpr OfError kMeterBadBand{12, 8};
inline constexpr OfError kMeterBadBandValue{12, 9};
inline constexpr OfError kMeterOutOfMeters{12, 10};
inline constexpr OfError kMeterOutOfBands{12, 11};

}  // namespace headrace::pipeline::of_error
