"""What a walk seldom needs stands in a room beside the core: the words of its errors, forward run again, threads."""

from __future__ import annotations

from plugrad.registry.namespaces import lazy_names

__getattr__, __dir__ = lazy_names(globals(), None, {
    "autograd.rare.unrecorded_views": "follow_flag keep_flag note_flag of_its_class one_of_several recorded shown_by "
    "why_no_flag", "autograd.rare.operands": "beside_array check_cast check_elements check_out_dtype check_outs "
    "device_mismatch in_dtype_of in_halves integer_scalar narrow of_two_devices refuse_mixture refuse_whole "
    "takes_halves type_without_tensors", "autograd.forward_ad.levels": "call_of_duals drop_tangents follow_base "
    "follow_reshape follow_write lift_saved old_value", "autograd.rare.function_mistakes": "gradients_of_hook "
    "check_marked check_returned checked_gradient gradients_of_nested needs_by_argument no_answer not_written "
    "refuse_changed_gradient refuse_to_save saved_once saved_variables the_vjp warn_of_old_style with_defaults",
    "autograd.missing_grads": "warn_missing",
    "autograd.rare.arguments_of_walks": "of_backward of_grad of_older_name of_tensor several unused_input zeros_for",
    "autograd.rare.overlaps": "check_out check_read check_written_dtype meet refuse_overlap resizing store_overlapping",
    "subclasses": "call_of_dispatching copy_slots detached item_of ones_like write_of_dispatching",
    "autograd.rare.orders": "grad_for grad_tensor_for in_order_of laid_out ordered order_result",
    "autograd.rare.wrong_results": "composed rule_of wrong_length wrong_result", "autograd.graph.calls": "call_node",
    "autograd.rare.anomaly": "check_nan explain note_stack watching_walks", "autograd.rare.overwritten": "overwriting",
    "autograd.rare.factories": "check_size factory_of_layout laid_as", "autograd.rare.fresh_threads": "in_fresh_thread",
    "autograd.rare.copied_views": "follow_copy lent stands_for_view", "autograd.rare.first_sight": "misfit note_class",
    "autograd.rare.warnings_of_walks": "warn_of_cycle warn_of_grad", "autograd.rare.forward_again": "run_forward_again",
    "autograd.rare.gradients_of_roots": "filled fitting_gradient refuse_root",
    "autograd.forward_ad.functions": "function_of_duals",
    "registry.third_parties.declarations": "check_declaration", "autograd.rare.data_mistakes": "check_data refuse_grad",
    "autograd.rare.reshaped": "change_shape follow_shape keep_shape unlock",
    "autograd.rare.cast_inputs": "keep_old_value note_copy", "autograd.rare.dims": "axes_of",
    "overrides.asked": "ask get_default_nowrap_functions", "registry.third_parties.op_records": "check_op",
    "autograd.rare.result_tuples": "result_tuple", "autograd.rare.explanations": "check_needed",
    "autograd.forward_ad.rules": "transposed", "autograd.rare.older_forms": "older_form", "backends.following": "slot",
    "autograd.graph.multi_grad": "other_walk", "autograd.rare.results": "fresh wrapped",
    "autograd.rare.callbacks": "run_queued", "autograd.graph.saved": "packed raw_saved",
    "autograd.graph.edges": "stand_in", "autograd.rare.options": "plain_options",
    "autograd.rare.parameter_mistakes": "check_fused refuse_complex refuse_group refuse_names refuse_param "
    "refuse_params refuse_set warn_of_duplicates", "autograd.rare.unwritable": "number_assigned refuse_leaf "
    "refuse_real refuse_shape refuse_view_of_leaf", "autograd.rare.late_flags": "flagged_since newborn without_flag",
})  # fmt: skip
